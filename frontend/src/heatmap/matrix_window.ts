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
