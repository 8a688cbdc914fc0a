import { type ByteMatrix, poolBytes } from "../../heatmap/rasterize";
import type { AttentionOverview, PlaneKind, StoredPlane } from "../../wire/attention";

const kept = new WeakMap<AttentionOverview, Map<string, ByteMatrix>>();

/** A head's plane with no more cells than it has pixels to be drawn on; made once for an overview. */
export function pooledPlane(
  overview: AttentionOverview,
  layer: number,
  head: number,
  kind: PlaneKind,
  plane: StoredPlane,
  side: number,
): ByteMatrix {
  const whole = { values: plane.bytes, rows: plane.rows, columns: plane.columns, rowStates: plane.rowStates };
  if (side >= Math.max(plane.rows, plane.columns)) return whole;
  const planes = kept.get(overview) ?? new Map<string, ByteMatrix>();
  kept.set(overview, planes);
  const key = `${kind} ${side} ${layer} ${head}`;
  const known = planes.get(key) ?? poolBytes(whole, side);
  planes.set(key, known);
  return known;
}

/** Pools the planes of an overview that will be shown soon, a layer whenever there is nothing else to do. */
export function poolAhead(overview: AttentionOverview, kind: PlaneKind, side: number, layer = 0): void {
  const record = overview.layers[layer];
  if (record === undefined) return;
  whenIdle(() => {
    for (let head = 0; head < record.heads; head++) {
      const plane = overview.plane(layer, head, kind);
      if (plane !== null) pooledPlane(overview, layer, head, kind, plane, side);
    }
    poolAhead(overview, kind, side, layer + 1);
  });
}

function whenIdle(work: () => void): void {
  if (typeof requestIdleCallback === "function") requestIdleCallback(work);
  else setTimeout(work, 16);
}
