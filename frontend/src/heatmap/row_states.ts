/** What a row of a matrix shows, as `records/row_states.py` numbers it. */
export const RowState = {
  probabilities: 0,
  /** None of its queries was looked at. */
  notRecorded: 1,
  /** Every key is masked. */
  masked: 2,
  /** A query of it holds NaN or infinity. */
  notFinite: 3,
} as const;

/** What a row shows when it shows no probabilities, for people. */
export const ROW_STATE_WORDS: readonly string[] = [
  "",
  "query not recorded",
  "every key is masked",
  "NaN or infinity",
];

/** The state of rows [begin, end) that are drawn as one: NaN or infinity is never hidden by what is beside it. */
export function stateOfRows(states: Uint8Array | undefined, begin: number, end: number): number {
  if (states === undefined) return RowState.probabilities;
  let least: number = RowState.notFinite;
  let most: number = RowState.probabilities;
  for (let row = begin; row < end; row++) {
    const state = states[row] ?? 0;
    if (state > most) most = state;
    if (state < least) least = state;
  }
  return most === RowState.notFinite || least > RowState.probabilities ? most : RowState.probabilities;
}

/**
 * The states of rows whose values are all there; undefined when all of them are probabilities.
 *
 * @param isWhole whether a row holds all of its keys, so that nothing but zeros means that all are masked
 */
export function rowStatesOf(
  { values, rows, columns }: { values: ArrayLike<number>; rows: number; columns: number },
  isWhole: boolean,
): Uint8Array | undefined {
  let states: Uint8Array | undefined;
  for (let row = 0; row < rows && columns > 0; row++) {
    let sum = 0;
    let known = 0;
    for (let at = row * columns; at < (row + 1) * columns; at++) {
      const value = values[at]!;
      // Single cells are NaN where keys are hidden.
      if (!Number.isNaN(value)) {
        sum += value;
        known++;
      }
    }
    const hasNumbers = known > 0 && sum < Number.POSITIVE_INFINITY;
    if (hasNumbers && (sum > 0 || !isWhole)) continue;
    states ??= new Uint8Array(rows);
    states[row] = hasNumbers ? RowState.masked : RowState.notFinite;
  }
  return states;
}

/** Pixels in memory order: alpha, blue, green, red from the highest byte on. */
const STRIPE = 0xff005ed5;
const BETWEEN_STRIPES = 0x38005ed5;
const DOT = 0xff8a8a8a;

/** The pixel at (x, y) of the pattern that stands for a state; 0 lets the page through. */
export function patternPixel(state: number, x: number, y: number): number {
  if (state === RowState.notFinite) return (x + y) % 6 < 2 ? STRIPE : BETWEEN_STRIPES;
  return state === RowState.masked && x % 4 === 1 && y % 4 === 1 ? DOT : 0;
}
