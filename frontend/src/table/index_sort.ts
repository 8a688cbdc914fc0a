/** Sorting without moving rows: each function returns or uses row numbers only. */

/**
 * A key whose plain string order is the order a person expects: digits are padded so that "layer.10" follows
 * "layer.9", and case is ignored.
 */
export function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => ZEROS.slice(digits.length) + digits);
}

const ZEROS = "000000000000";

/** An order of rows: the rank of each row, equal keys sharing one; rows without a key have rank `count`. */
export interface Ranks {
  readonly ranks: Uint32Array;
  /** Number of distinct keys. */
  readonly count: number;
}

/** Ranks texts in natural order. One sort over the distinct texts; an empty text has no key. */
export function rankTexts(texts: readonly string[]): Ranks {
  const keyOfText = new Map<string, string>();
  for (const text of texts) {
    if (text !== "" && !keyOfText.has(text)) keyOfText.set(text, naturalKey(text));
  }
  // Sorting plain strings without a comparator stays inside the engine, several times faster than with one.
  const keys = [...new Set(keyOfText.values())].sort();
  const rankOfKey = new Map(keys.map((key, rank) => [key, rank]));
  const rankOfText = new Map<string, number>();
  for (const [text, key] of keyOfText) rankOfText.set(text, rankOfKey.get(key) ?? keys.length);
  return {
    ranks: Uint32Array.from(texts, (text) => rankOfText.get(text) ?? keys.length),
    count: keys.length,
  };
}

/** Ranks numbers; NaN has no key. */
export function rankNumbers(values: Float64Array): Ranks {
  // A typed array sorts natively; NaN goes to its end.
  const sorted = values.slice().sort();
  let count = 0;
  for (let index = 0; index < sorted.length; index++) {
    const value = sorted[index] ?? Number.NaN;
    if (Number.isNaN(value)) break;
    if (count === 0 || value !== sorted[count - 1]) sorted[count++] = value;
  }
  const distinct = sorted.subarray(0, count);
  return {
    ranks: Uint32Array.from(values, (value) => (Number.isNaN(value) ? count : lowerBound(distinct, value))),
    count,
  };
}

function lowerBound(sorted: Float64Array, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Row numbers by rank, stably: a counting sort. Rows without a key go last in both directions. */
export function sortRows(rows: Uint32Array, { ranks, count }: Ranks, descending: boolean): Uint32Array {
  const place = (row: number) => {
    const rank = ranks[row] ?? count;
    return descending && rank < count ? count - 1 - rank : rank;
  };
  const starts = new Uint32Array(count + 2);
  for (const row of rows) starts[place(row) + 1]!++;
  for (let rank = 0; rank <= count; rank++) starts[rank + 1]! += starts[rank]!;
  const sorted = new Uint32Array(rows.length);
  for (const row of rows) sorted[starts[place(row)]!++] = row;
  return sorted;
}
