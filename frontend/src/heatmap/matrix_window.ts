import type { Box } from "./rasterize";

/** The part of a matrix in view, in cells; zooming and moving never leave the matrix. */
export function wholeMatrix(rows: number, columns: number): Box {
  return { x: 0, y: 0, width: columns, height: rows };
}

/** Zooms by a factor (> 1 enlarges) so that the cell under (x, y), given as shares 0 … 1 of the view, stays there. */
export function zoomWindow(
  window: Box,
  factor: number,
  x: number,
  y: number,
  rows: number,
  columns: number,
): Box {
  const width = clamp(window.width / factor, Math.min(4, columns), columns);
  const height = clamp(window.height / factor, Math.min(4, rows), rows);
  return fitInside(
    { x: window.x + x * (window.width - width), y: window.y + y * (window.height - height), width, height },
    rows,
    columns,
  );
}

/** Moves the view by a number of cells. */
export function moveWindow(
  window: Box,
  byColumns: number,
  byRows: number,
  rows: number,
  columns: number,
): Box {
  return fitInside({ ...window, x: window.x + byColumns, y: window.y + byRows }, rows, columns);
}

/** Moves the view as little as needed to contain a cell. */
export function revealCell(window: Box, row: number, column: number, rows: number, columns: number): Box {
  const shift = (begin: number, length: number, cell: number) =>
    cell < begin ? cell : cell + 1 > begin + length ? cell + 1 - length : begin;
  return fitInside(
    { ...window, x: shift(window.x, window.width, column), y: shift(window.y, window.height, row) },
    rows,
    columns,
  );
}

/** A view that came from elsewhere, cut to the matrix. */
export function insideMatrix(window: Box, rows: number, columns: number): Box {
  const width = clamp(window.width, Math.min(4, columns), columns);
  const height = clamp(window.height, Math.min(4, rows), rows);
  return fitInside({ ...window, width, height }, rows, columns);
}

/** The part of two boxes that both have; null when they do not meet. */
export function overlap(a: Box, b: Box): Box | null {
  const x = Math.max(a.x, b.x);
  const y = Math.max(a.y, b.y);
  const width = Math.min(a.x + a.width, b.x + b.width) - x;
  const height = Math.min(a.y + a.height, b.y + b.height) - y;
  return width > 0 && height > 0 ? { x, y, width, height } : null;
}

/** A box in other units. */
export function scaled(box: Box, across: number, down: number): Box {
  return { x: box.x * across, y: box.y * down, width: box.width * across, height: box.height * down };
}

/** Whole pixels that a part of the view covers. */
export function pixelsOf(part: Box, view: Box, width: number, height: number): Box {
  const left = Math.round(((part.x - view.x) / view.width) * width);
  const top = Math.round(((part.y - view.y) / view.height) * height);
  const right = Math.round(((part.x + part.width - view.x) / view.width) * width);
  const bottom = Math.round(((part.y + part.height - view.y) / view.height) * height);
  return { x: left, y: top, width: right - left, height: bottom - top };
}

/** The whole positions that a view touches, with a margin on every side, inside the matrix. */
export function wholePositions(view: Box, margin: number, rows: number, columns: number): Box {
  const x = Math.max(0, Math.floor(view.x - margin * view.width));
  const y = Math.max(0, Math.floor(view.y - margin * view.height));
  const right = Math.min(columns, Math.ceil(view.x + view.width * (1 + margin)));
  const bottom = Math.min(rows, Math.ceil(view.y + view.height * (1 + margin)));
  return { x, y, width: right - x, height: bottom - y };
}

function fitInside(window: Box, rows: number, columns: number): Box {
  return {
    ...window,
    x: clamp(window.x, 0, columns - window.width),
    y: clamp(window.y, 0, rows - window.height),
  };
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}

/** Positions on an axis whose labels do not overlap: every k-th, k a round number. */
export function labelPositions(begin: number, length: number, pixels: number, lineHeight: number): number[] {
  const fitting = Math.max(1, Math.floor(pixels / lineHeight));
  const step = roundStep(length / fitting);
  const positions: number[] = [];
  for (let position = Math.ceil(begin / step) * step; position < begin + length; position += step) {
    if (Math.floor(position) === position) positions.push(position);
  }
  return positions;
}

function roundStep(least: number): number {
  if (least <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((multiple) => multiple * power).find((step) => step >= least) ?? 10 * power;
}

/** "x,y,width,height" of a link; null for anything else. */
export function parseView(text: string): Box | null {
  const [x, y, width, height, ...rest] = text.split(",").map(Number);
  if (x === undefined || y === undefined || width === undefined || height === undefined || rest.length > 0)
    return null;
  const isBox = [x, y, width, height].every(Number.isFinite) && width > 0 && height > 0;
  return isBox ? { x, y, width, height } : null;
}
