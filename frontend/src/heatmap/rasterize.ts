import type { ColorMap } from "./color_maps";
import { patternPixel, RowState, stateOfRows } from "./row_states";

/** Pixels of an image in memory order; `width` pixels a line. */
export interface Pixels {
  readonly data: Uint32Array;
  readonly width: number;
  readonly height: number;
}

/** A rectangle: of pixels in the image, or of cells (rows and columns) in a matrix. Ends are exclusive. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Row-major values, `columns` a row. */
export interface Matrix {
  readonly values: ArrayLike<number>;
  readonly rows: number;
  readonly columns: number;
  /** A {@link RowState} for each row; undefined when all of them are probabilities. */
  readonly rowStates?: Uint8Array | undefined;
}

export function createPixels(width: number, height: number): Pixels {
  return { data: new Uint32Array(width * height), width, height };
}

/**
 * Draws the cells `window` of a matrix into the pixels `box`. Where several cells fall onto a pixel it shows the one
 * farthest from zero: a peak is never averaged away. Cells whose colour index is negative (NaN) stay transparent, rows
 * without probabilities have a pattern.
 *
 * @param colorIndex value → entry of `colors`; must not decrease with the distance from zero
 */
export function rasterize(
  pixels: Pixels,
  box: Box,
  matrix: Matrix,
  window: Box,
  colorIndex: (value: number) => number,
  colors: ColorMap,
): void {
  const { values, columns } = matrix;
  const firstColumn = cellEdges(window.x, window.width, box.width, columns);
  const firstRow = cellEdges(window.y, window.height, box.height, matrix.rows);
  for (let y = 0; y < box.height; y++) {
    const line = (box.y + y) * pixels.width + box.x;
    const rowBegin = firstRow[2 * y] ?? 0;
    const rowEnd = firstRow[2 * y + 1] ?? 0;
    if (drawPattern(pixels, box, y, stateOfRows(matrix.rowStates, rowBegin, rowEnd))) continue;
    for (let x = 0; x < box.width; x++) {
      const columnBegin = firstColumn[2 * x] ?? 0;
      const columnEnd = firstColumn[2 * x + 1] ?? 0;
      const index = colorIndex(farthest(values, columns, rowBegin, rowEnd, columnBegin, columnEnd));
      pixels.data[line + x] = index < 0 ? 0 : (colors[index] ?? 0);
    }
  }
}

/** Fills a line of pixels with the pattern of a row that shows no probabilities; false when it shows some. */
function drawPattern(pixels: Pixels, box: Box, y: number, state: number): boolean {
  if (state === RowState.probabilities) return false;
  const line = (box.y + y) * pixels.width + box.x;
  for (let x = 0; x < box.width; x++) pixels.data[line + x] = patternPixel(state, x, y);
  return true;
}

/** The value farthest from zero; NaN when there is none. */
function farthest(
  values: ArrayLike<number>,
  columns: number,
  rowBegin: number,
  rowEnd: number,
  columnBegin: number,
  columnEnd: number,
): number {
  let extreme = Number.NaN;
  for (let row = rowBegin; row < rowEnd; row++) {
    for (let column = columnBegin; column < columnEnd; column++) {
      const value = values[row * columns + column] ?? Number.NaN;
      if (Number.isNaN(extreme) || Math.abs(value) > Math.abs(extreme)) extreme = value;
    }
  }
  return extreme;
}

/** Cells of one byte. */
export interface ByteMatrix extends Matrix {
  readonly values: Uint8Array;
}

/** A matrix of bytes with at most `most` rows and columns: the largest of the cells that fall onto one. */
export function poolBytes(matrix: ByteMatrix, most: number): ByteMatrix {
  const rows = Math.min(most, matrix.rows);
  const columns = Math.min(most, matrix.columns);
  if (rows === matrix.rows && columns === matrix.columns) return matrix;
  const across = cellEdges(0, matrix.columns, columns, matrix.columns);
  const down = cellEdges(0, matrix.rows, rows, matrix.rows);
  const { values } = matrix;
  const width = matrix.columns;
  const line = new Uint8Array(width);
  const pooled = new Uint8Array(rows * columns);
  // The larger of two without a branch, which random bytes would mispredict: twice as fast for millions of cells.
  for (let row = 0; row < rows; row++) {
    const begin = down[2 * row]! * width;
    const end = down[2 * row + 1]! * width;
    for (let column = 0; column < width; column++) {
      let largest = values[begin + column]!;
      for (let at = begin + width + column; at < end; at += width) {
        const more = values[at]! - largest;
        largest += more & ~(more >> 31);
      }
      line[column] = largest;
    }
    for (let column = 0; column < columns; column++) {
      const last = across[2 * column + 1]!;
      let largest = 0;
      for (let at = across[2 * column]!; at < last; at++) {
        const more = line[at]! - largest;
        largest += more & ~(more >> 31);
      }
      pooled[row * columns + column] = largest;
    }
  }
  const states = matrix.rowStates;
  const rowStates =
    states &&
    Uint8Array.from({ length: rows }, (_, row) => stateOfRows(states, down[2 * row]!, down[2 * row + 1]!));
  return { values: pooled, rows, columns, rowStates };
}

/** Draws a whole matrix of bytes, in the colour that each byte has. Nothing is called for a pixel. */
export function rasterizeBytes(pixels: Pixels, box: Box, matrix: ByteMatrix, colors: Uint32Array): void {
  const { width, height } = box;
  const { data } = pixels;
  const { values, rows, columns, rowStates } = poolBytes(matrix, Math.max(width, height));
  const across = cellEdges(0, columns, width, columns);
  const down = cellEdges(0, rows, height, rows);
  for (let y = 0; y < height; y++) {
    const line = (box.y + y) * pixels.width + box.x;
    if (drawPattern(pixels, box, y, rowStates?.[down[2 * y]!] ?? 0)) continue;
    const row = down[2 * y]! * columns;
    for (let x = 0; x < width; x++) data[line + x] = colors[values[row + across[2 * x]!]!]!;
  }
}

/**
 * The cells behind each pixel of one axis, as pairs begin, end: at least one cell a pixel. The window may begin and
 * end inside a cell.
 */
export function cellEdges(begin: number, length: number, pixelCount: number, cellCount: number): Uint32Array {
  const edges = new Uint32Array(2 * pixelCount);
  for (let pixel = 0; pixel < pixelCount; pixel++) {
    const from = Math.floor(begin + (pixel * length) / pixelCount + 1e-9);
    const to = Math.ceil(begin + ((pixel + 1) * length) / pixelCount - 1e-9);
    // While cells are larger than pixels a pixel on an edge belongs to the cell where it begins.
    const end = length < pixelCount ? from + 1 : to;
    edges[2 * pixel] = Math.max(0, Math.min(cellCount - 1, from));
    edges[2 * pixel + 1] = Math.max(0, Math.min(cellCount, Math.max(end, from + 1)));
  }
  return edges;
}
