import { decodePlane } from "../../heatmap/overview_plane";
import type { Box, Matrix } from "../../heatmap/rasterize";
import { ROW_STATE_WORDS, rowStatesOf } from "../../heatmap/row_states";
import type { AttentionOverview, HeadFilter } from "../../wire/attention";

/** Parts of a head that is too large to be read whole. */
export interface HeadParts {
  readonly guarantee: string;
  /** Query positions that were kept; null for all. */
  readonly rows: readonly number[] | null;
  /** The largest value of each of rowCells × columnCells blocks of a part given in positions. */
  read(
    part: Box,
    rowCells: number,
    columnCells: number,
    signal?: AbortSignal,
    filter?: HeadFilter,
  ): Promise<Matrix>;
}

/** One head's map, and how exact it is. */
export interface HeadMatrix {
  readonly matrix: Matrix;
  /** Positions of the sequence; larger than the matrix when that is an overview. */
  readonly queries: number;
  readonly keys: number;
  /** Whether a cell is one query and one key. */
  readonly isFull: boolean;
  /** What the numbers are, for the user. */
  readonly guarantee: string;
  /** Full resolution on request, where the matrix is an overview of it. */
  readonly parts: HeadParts | null;
}

export function fullMatrix(
  overview: AttentionOverview,
  layer: number,
  values: Float32Array,
  guarantee: string,
): HeadMatrix | null {
  const record = overview.layers[layer];
  if (record === undefined || values.length !== record.queryLength * record.keyLength) return null;
  const matrix = { values, rows: record.queryLength, columns: record.keyLength };
  return {
    matrix: { ...matrix, rowStates: rowStatesOf(matrix, true) },
    queries: record.queryLength,
    keys: record.keyLength,
    isFull: true,
    guarantee: `full resolution, ${guarantee} · ${record.exactness || "exactness not recorded"}`,
    parts: null,
  };
}

/** What the overview shows of a head; null when the layer was not captured. */
export function overviewMatrix(
  overview: AttentionOverview,
  layer: number,
  head: number,
  parts: HeadParts | null = null,
): HeadMatrix | null {
  const plane = overview.plane(layer, head, "maximum");
  const record = overview.layers[layer];
  if (plane === null || record === undefined) return null;
  const isFull = plane.rows === record.queryLength && plane.columns === record.keyLength;
  const cell = `${Math.ceil(record.queryLength / plane.rows)} × ${Math.ceil(record.keyLength / plane.columns)}`;
  return {
    matrix: decodePlane(plane),
    queries: record.queryLength,
    keys: record.keyLength,
    isFull,
    guarantee: isFull
      ? "8-bit overview: within 0.4 % of the head's maximum"
      : `${plane.rows} × ${plane.columns} overview: a cell is the largest of about ${cell} probabilities`,
    parts,
  };
}

/** The value at a position of a matrix that covers `box`, and whether it is that of the position alone. */
export function valueAt(
  matrix: Matrix,
  box: Box,
  row: number,
  column: number,
): { value: number; isExact: boolean } {
  const cellRow = Math.floor(((row - box.y) * matrix.rows) / box.height);
  const cellColumn = Math.floor(((column - box.x) * matrix.columns) / box.width);
  return {
    value: matrix.values[cellRow * matrix.columns + cellColumn] ?? Number.NaN,
    isExact: matrix.rows === box.height && matrix.columns === box.width,
  };
}

/** Why a query has no probabilities, or "" when it has; of an overview, why its block has none. */
export function rowStateWords({ matrix, queries }: HeadMatrix, query: number): string {
  const row = Math.floor((query * matrix.rows) / Math.max(1, queries));
  return ROW_STATE_WORDS[matrix.rowStates?.[row] ?? 0] ?? "";
}

/** The matrix with all but the largest values of each row left empty, those that hold `share` of its mass. */
export function withTopMass(matrix: Matrix, share: number): Matrix {
  const values = Float32Array.from(matrix.values);
  for (let row = 0; row < matrix.rows; row++) {
    const begin = row * matrix.columns;
    const order = Array.from({ length: matrix.columns }, (_, column) => column)
      .filter((column) => (values[begin + column] ?? 0) > 0)
      .sort((a, b) => values[begin + b]! - values[begin + a]!);
    const total = order.reduce((sum, column) => sum + values[begin + column]!, 0);
    let mass = 0;
    for (const column of order) {
      if (mass >= share * total - 1e-6) values[begin + column] = Number.NaN;
      else mass += values[begin + column]!;
    }
  }
  return { ...matrix, values };
}

/** Positions of the sequence behind a cell of one axis: [first, last]. */
export function positionsOf(cell: number, cells: number, length: number): [number, number] {
  const first = Math.floor((cell * length) / cells);
  return [first, Math.max(first, Math.ceil(((cell + 1) * length) / cells) - 1)];
}

/** Mean over rows of the probability on the columns given; rows without any are passed over. */
export function massOn(matrix: Matrix, columns: readonly number[]): number {
  let sum = 0;
  let rows = 0;
  for (let row = 0; row < matrix.rows; row++) {
    let mass = 0;
    let total = 0;
    for (let column = 0; column < matrix.columns; column++) {
      const value = matrix.values[row * matrix.columns + column] ?? 0;
      total += value;
      if (columns.includes(column)) mass += value;
    }
    if (!(total > 0)) continue;
    sum += mass / total;
    rows++;
  }
  return rows === 0 ? Number.NaN : sum / rows;
}

/** The matrix with the columns given left empty. */
export function withoutColumns(matrix: Matrix, columns: readonly number[]): Matrix {
  const values = Float32Array.from(matrix.values);
  for (let row = 0; row < matrix.rows; row++) {
    for (const column of columns) values[row * matrix.columns + column] = Number.NaN;
  }
  return { ...matrix, values };
}

/** One row of a matrix. */
export function matrixRow(matrix: Matrix, row: number): Float32Array {
  return Float32Array.from(
    { length: matrix.columns },
    (_, column) => matrix.values[row * matrix.columns + column] ?? 0,
  );
}

/** The largest of some values, 0 when there is none; hidden ones (NaN) are passed over. */
export function largest(values: Iterable<number>): number {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}
