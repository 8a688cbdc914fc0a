import type { AttentionComparison, AttentionOverview, LayerPair } from "../../wire/attention";
import type { HeadChoice } from "./head_choice";

/** The first layer that has a map; −1 when none has. */
export function firstLayer({ layers }: AttentionOverview): number {
  return layers.findIndex((layer) => layer.notCaptured === "" && layer.heads > 0);
}

/** The last layer that has a map; −1 when none has. */
export function lastLayer({ layers }: AttentionOverview): number {
  return layers.findLastIndex((layer) => layer.notCaptured === "" && layer.heads > 0);
}

/** The layer at or below the place that another tab came from, "T:path" or "S:path"; null when it is of the other side. */
export function layerAtPlace(
  { layers }: AttentionOverview,
  side: "teacher" | "student",
  place: string,
): number | null {
  if (!place.startsWith(side === "teacher" ? "T:" : "S:") || place.length === 2) return null;
  const path = place.slice(2);
  const layer = layers.findIndex(
    ({ modulePath, notCaptured }) =>
      notCaptured === "" && (modulePath === path || modulePath.startsWith(`${path}.`)),
  );
  return layer < 0 ? null : layer;
}

/** The layer pair in use with the smallest distance. */
export function closestPair(comparison: AttentionComparison | undefined): [number, number] | undefined {
  const distance = ([t, s]: [number, number]) =>
    comparison?.layer_distances[t]?.[s] ?? Number.POSITIVE_INFINITY;
  return [...(comparison?.layer_pairs ?? [])].sort((a, b) => distance(a) - distance(b))[0];
}

/** The teacher's head of a layer pair that has the closest match; null when no head has one. */
export function closestHead(pair: LayerPair | undefined): HeadChoice | null {
  const best = [...(pair?.heads ?? [])].sort((a, b) => a[2] - b[2])[0];
  return pair === undefined || best === undefined ? null : { layer: pair.teacher, head: best[0] };
}
