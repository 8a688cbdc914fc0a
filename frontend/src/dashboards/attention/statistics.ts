/** Statistics of a head as they are stored, with names for people. */
export interface Statistic {
  readonly id: string;
  readonly label: string;
  readonly meaning: string;
}

export const STATISTICS: readonly Statistic[] = [
  {
    id: "normalized_entropy",
    label: "normalised entropy",
    meaning: "0: every query looks at one key; 1: evenly at all it can see",
  },
  { id: "entropy", label: "entropy", meaning: "mean over queries, in nats" },
  { id: "distance", label: "distance", meaning: "mean distance between query and key, in positions" },
  { id: "sink_mass", label: "sink", meaning: "mean probability on the first key" },
  { id: "diagonal_mass", label: "diagonal", meaning: "mean probability on the own position" },
  { id: "previous_mass", label: "previous", meaning: "mean probability on the position before" },
  { id: "top1_mass", label: "top 1", meaning: "mean over queries of the largest probability" },
  { id: "maximum", label: "maximum", meaning: "largest probability" },
];

/** Numbers of queries of a head that are left out of its statistics. */
export const LEFT_OUT: readonly Statistic[] = [
  { id: "masked_rows", label: "masked", meaning: "queries of which every key is masked" },
  { id: "non_finite_rows", label: "NaN or ∞", meaning: "queries whose probabilities hold NaN or infinity" },
];

export function countText(value: number): string {
  return Number.isFinite(value) ? String(value) : "–";
}

export function statisticText(value: number): string {
  return Number.isFinite(value) ? value.toFixed(3) : "–";
}
