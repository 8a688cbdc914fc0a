import { type AttentionComparison, fetchComparison, fetchStatistics } from "../../wire/attention";
import type { Columns } from "../../wire/columns";
import type { Intent } from "../../wire/comparison";
import type { Address } from "../../wire/records";

/** What the shared steps of both models have in common views: statistics of all heads, and the comparison. */
export interface History {
  readonly steps: readonly number[];
  readonly teacher: readonly Columns[];
  /** Empty when there is no student. */
  readonly student: readonly Columns[];
  readonly comparisons: readonly AttentionComparison[];
}

/** Steps read at most: enough to see a course, few enough to be quick. */
export const MOST_STEPS = 48;

/** Reads the records of both models, step by step at the same positions. */
export async function readHistory(
  teachers: readonly Address[],
  students: readonly Address[],
  intent: Intent,
  abort: AbortSignal,
): Promise<History> {
  const statistics = (addresses: readonly Address[]) =>
    Promise.all(addresses.map((address) => fetchStatistics(address, abort)));
  const [teacher, student, comparisons] = await Promise.all([
    statistics(teachers),
    statistics(students),
    // Models that cannot be compared still have statistics of their own.
    Promise.all(
      students.map((address, index) => fetchComparison(teachers[index]!, address, intent, abort)),
    ).catch(() => []),
  ]);
  return { steps: teachers.map(({ step }) => step), teacher, student, comparisons };
}

/** At most `count` of the values, the first and the last among them. */
export function thin(values: readonly number[], count: number): number[] {
  if (values.length <= count) return [...values];
  return Array.from(
    { length: count },
    (_, index) => values[Math.round((index * (values.length - 1)) / (count - 1))]!,
  );
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Distance of two layers at each step; NaN where they could not be compared. */
export function layerDistances(history: History, teacher: number, student: number): Point[] {
  return history.comparisons.map((comparison, index) => ({
    x: history.steps[index]!,
    y: comparison.layer_distances[teacher]?.[student] ?? Number.NaN,
  }));
}

/** Mean of a statistic over the heads of a layer, or over all heads. */
export function meanOf(table: Columns, column: string, layer: number | null): number {
  const values = table.number(column);
  const layers = table.number("layer");
  let sum = 0;
  let count = 0;
  for (let row = 0; row < values.length; row++) {
    const value = values[row] ?? Number.NaN;
    if ((layer !== null && layers[row] !== layer) || !Number.isFinite(value)) continue;
    sum += value;
    count++;
  }
  return count === 0 ? Number.NaN : sum / count;
}
