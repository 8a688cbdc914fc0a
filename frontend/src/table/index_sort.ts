/** Sorting without moving rows: each function returns or uses row numbers only. */

/**
 * A key whose plain string order is the order a person expects: digits are padded so that "layer.10" follows
 * "layer.9", and case is ignored.
 */
export function naturalKey(text: string): string {
  return text.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0"));
}

/** Rank of each row's text in natural order; equal texts share a rank. One comparison sort over distinct texts. */
export function textRanks(texts: readonly string[]): Float64Array {
  const distinct = new Map<string, string>();
  for (const text of texts) if (text !== "" && !distinct.has(text)) distinct.set(text, naturalKey(text));
  // Sorting plain strings without a comparator stays inside the engine, several times faster than with one.
  const keys = [...new Set(distinct.values())].sort();
  const rankOfKey = new Map(keys.map((key, rank) => [key, rank]));
  const ranks = new Float64Array(texts.length);
  for (let row = 0; row < texts.length; row++) {
    const text = texts[row] ?? "";
    // An empty cell has nothing to order by: it goes last whichever way the column is sorted.
    ranks[row] = text === "" ? Number.NaN : (rankOfKey.get(distinct.get(text) ?? "") ?? Number.NaN);
  }
  return ranks;
}

/** Sorts row numbers in place by `keys[row]`, stably; rows whose key is NaN go last in both directions. */
export function sortRows(rows: Uint32Array, keys: Float64Array, descending: boolean): Uint32Array {
  const sign = descending ? -1 : 1;
  return rows.sort((a, b) => {
    const x = keys[a] ?? Number.NaN;
    const y = keys[b] ?? Number.NaN;
    if (Number.isNaN(x)) return Number.isNaN(y) ? a - b : 1;
    if (Number.isNaN(y)) return -1;
    return x === y ? a - b : sign * (x < y ? -1 : 1);
  });
}
