/** Sorting without moving rows: each function returns or uses row numbers only. */

/**
 * A key whose plain string order is the order a person expects: digits are padded so that "layer.10" follows
 * "layer.9", and case is ignored.
 */
export function naturalKey(text: string): string {
  const lowered = text.toLowerCase();
  let key = "";
  let copied = 0;
  for (let index = 0; index < lowered.length; index++) {
    if (!isDigit(lowered.charCodeAt(index))) continue;
    const begin = index;
    while (index < lowered.length && isDigit(lowered.charCodeAt(index))) index++;
    key += lowered.slice(copied, begin) + ZEROS.slice(index - begin);
    copied = begin;
  }
  return key + lowered.slice(copied);
}

const ZEROS = "000000000000";

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** An order of rows: the rank of each row, equal keys sharing one; rows without a key have rank `count`. */
export interface Ranks {
  readonly ranks: Uint32Array;
  /** Number of distinct keys. */
  readonly count: number;
}

/** Ranks texts in natural order; an empty text has no key. */
export function rankTexts(texts: readonly string[]): Ranks {
  const work = rankTextsInSteps(texts.length, (row) => texts[row] ?? "");
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

const ROWS_A_STEP = 1_000;
const RUN = 2_048;
const MARK = "\u0000";

/**
 * The same in steps of about a millisecond, so that a table of 100,000 rows can be put in order while nobody waits.
 * Natural keys carry the number of their text behind them: sorting strings without a comparator stays inside the
 * engine, and no table from key to rank is needed.
 */
export function* rankTextsInSteps(
  rowCount: number,
  textOf: (row: number) => string,
): Generator<undefined, Ranks> {
  const textOfRow = new Int32Array(rowCount).fill(-1);
  const numbers = new Map<string, number>();
  const entries: string[] = [];
  for (let row = 0; row < rowCount; row++) {
    if (row % ROWS_A_STEP === ROWS_A_STEP - 1) yield;
    const text = textOf(row);
    if (text === "") continue;
    let number = numbers.get(text);
    if (number === undefined) {
      number = entries.length;
      numbers.set(text, number);
      entries.push(naturalKey(text) + MARK + number);
    }
    textOfRow[row] = number;
  }
  const sorted = yield* sortInSteps(entries);
  const rankOfText = new Uint32Array(sorted.length);
  let count = 0;
  let previous = "";
  for (let index = 0; index < sorted.length; index++) {
    if (index % ROWS_A_STEP === ROWS_A_STEP - 1) yield;
    const entry = sorted[index] ?? "";
    const cut = entry.lastIndexOf(MARK);
    const key = entry.slice(0, cut);
    if (index === 0 || key !== previous) count++;
    previous = key;
    rankOfText[Number(entry.slice(cut + 1))] = count - 1;
  }
  const ranks = new Uint32Array(rowCount);
  for (let row = 0; row < rowCount; row++) {
    const text = textOfRow[row] ?? -1;
    ranks[row] = text < 0 ? count : (rankOfText[text] ?? count);
  }
  return { ranks, count };
}

/** Merge sort of strings: runs that the engine sorts at once, then merges. */
function* sortInSteps(entries: string[]): Generator<undefined, string[]> {
  let runs: string[][] = [];
  for (let begin = 0; begin < entries.length; begin += RUN) {
    runs.push(entries.slice(begin, begin + RUN).sort());
    yield;
  }
  while (runs.length > 1) {
    const merged: string[][] = [];
    for (let index = 0; index < runs.length; index += 2) {
      const left = runs[index] ?? [];
      const right = runs[index + 1];
      merged.push(right === undefined ? left : yield* mergeInSteps(left, right));
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

function* mergeInSteps(left: string[], right: string[]): Generator<undefined, string[]> {
  const [lastOfLeft, firstOfRight] = [left[left.length - 1], right[0]];
  // Rows come in the order in which modules ran, so that neighbouring runs are often in order already.
  if (lastOfLeft !== undefined && firstOfRight !== undefined && lastOfLeft <= firstOfRight)
    return left.concat(right);
  const merged: string[] = new Array(left.length + right.length);
  let l = 0;
  let r = 0;
  for (let index = 0; index < merged.length; index++) {
    if (index % RUN === RUN - 1) yield;
    const a = left[l];
    const b = right[r];
    if (b === undefined || (a !== undefined && a <= b)) {
      merged[index] = a ?? "";
      l++;
    } else {
      merged[index] = b;
      r++;
    }
  }
  return merged;
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
