import type { StoredPlane } from "../wire/attention";
import type { Matrix } from "./rasterize";
import { RowState } from "./row_states";

export function planeValue(plane: StoredPlane, cell: number): number {
  return plane.scale * ((plane.bytes[cell] ?? 0) / 255) ** 2;
}

/** The value that each byte of a plane stands for. */
export function byteValues(scale: number): Float32Array {
  // A plain loop: TypedArray.from takes twenty times as long, and there is a table for each of a thousand heads.
  const values = new Float32Array(256);
  for (let byte = 0; byte < 256; byte++) values[byte] = (scale * byte * byte) / 65025;
  return values;
}

/** The probabilities of a plane; NaN in rows that have none, so that nobody takes what was stored there for numbers. */
export function decodePlane(plane: StoredPlane): Matrix {
  const table = byteValues(plane.scale);
  const values = new Float32Array(plane.bytes.length);
  for (let cell = 0; cell < values.length; cell++) values[cell] = table[plane.bytes[cell]!]!;
  plane.rowStates?.forEach((state, row) => {
    const hasNone = state === RowState.notFinite || state === RowState.notRecorded;
    if (hasNone) values.fill(Number.NaN, row * plane.columns, (row + 1) * plane.columns);
  });
  return { values, rows: plane.rows, columns: plane.columns, rowStates: plane.rowStates };
}

/** Cell by cell `a − b`, on a grid of the first one's size; of several cells of `b` the nearest counts. */
export function difference(a: Matrix, b: Matrix): Matrix {
  const values = new Float32Array(a.rows * a.columns);
  const rowStates = a.rowStates || b.rowStates ? new Uint8Array(a.rows) : undefined;
  for (let row = 0; row < a.rows; row++) {
    const other = Math.min(b.rows - 1, Math.floor(((row + 0.5) * b.rows) / a.rows));
    if (rowStates) rowStates[row] = Math.max(a.rowStates?.[row] ?? 0, b.rowStates?.[other] ?? 0);
    for (let column = 0; column < a.columns; column++) {
      const otherColumn = Math.min(b.columns - 1, Math.floor(((column + 0.5) * b.columns) / a.columns));
      const cell = row * a.columns + column;
      values[cell] =
        (a.values[cell] ?? Number.NaN) - (b.values[other * b.columns + otherColumn] ?? Number.NaN);
    }
  }
  return { values, rows: a.rows, columns: a.columns, rowStates };
}

/** The largest distance from zero; 0 for an empty matrix. NaN and infinity are passed over. */
export function extent(matrix: Matrix): number {
  let largest = 0;
  for (let cell = 0; cell < matrix.values.length; cell++) {
    const size = Math.abs(matrix.values[cell] ?? 0);
    if (size > largest && size < Number.POSITIVE_INFINITY) largest = size;
  }
  return largest;
}
