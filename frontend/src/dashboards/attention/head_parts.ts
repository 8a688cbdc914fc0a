import { useEffect, useState } from "preact/hooks";
import type { MatrixPatch } from "../../heatmap/matrix_canvas";
import { wholePositions } from "../../heatmap/matrix_window";
import type { Box } from "../../heatmap/rasterize";
import { rowStatesOf } from "../../heatmap/row_states";
import type { HeadFilter } from "../../wire/attention";
import type { HeadMatrix } from "./head_matrix";

/** Cells a side that a part is read with: more than there are pixels show nothing. */
const MOST_CELLS = 512;
/** Moving and zooming ask for many parts; the one at rest is read. */
const REST_MS = 80;
/** Keys of a row that are read one by one. */
const MOST_KEYS = 8192;
/** Hidden keys whose mass is read. */
const MOST_COLUMNS = 32;

/** Full resolution of the part in view, when the head is stored in parts and it has arrived. */
export function usePatch(
  head: HeadMatrix | undefined,
  view: Box | null,
  filter: HeadFilter,
): MatrixPatch | null {
  const [patch, setPatch] = useState<{ of: HeadMatrix; without: string; patch: MatrixPatch } | null>(null);
  const without = filterKey(filter);
  useEffect(() => {
    const parts = head?.parts ?? null;
    if (head === undefined || parts === null || parts.rows !== null) return;
    const all = { x: 0, y: 0, width: head.keys, height: head.queries };
    const box = wholePositions(view ?? all, 0.25, head.queries, head.keys);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      parts
        .read(box, Math.min(MOST_CELLS, box.height), Math.min(MOST_CELLS, box.width), abort.signal, filter)
        .then((matrix) => {
          const rowStates = rowStatesOf(matrix, false);
          setPatch({ of: head, without, patch: { matrix: { ...matrix, rowStates }, box } });
        })
        // The overview stays where a part cannot be had: too large at once, or no longer wanted.
        .catch(() => {});
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [head, view, without]);
  return patch !== null && patch.of === head && patch.without === without ? patch.patch : null;
}

function filterKey({ hidden, share }: HeadFilter): string {
  return `${share} ${hidden.join()}`;
}

/** Share of a head's mass on keys that are hidden, read column by column; 0 until it has arrived. */
export function useHiddenMass(head: HeadMatrix | undefined, hidden: readonly number[]): number {
  const [mass, setMass] = useState<{ of: HeadMatrix; keys: string; mass: number } | null>(null);
  const keys = hidden.join();
  useEffect(() => {
    const parts = head?.parts ?? null;
    if (head === undefined || parts === null || parts.rows !== null || hidden.length === 0) return;
    const abort = new AbortController();
    const column = (x: number) =>
      parts.read({ x, y: 0, width: 1, height: head.queries }, head.queries, 1, abort.signal);
    Promise.all(hidden.slice(0, MOST_COLUMNS).map(column))
      .then((columns) => {
        let sum = 0;
        for (const { values } of columns)
          for (let row = 0; row < values.length; row++) sum += values[row] ?? 0;
        setMass({ of: head, keys, mass: sum / Math.max(1, head.queries) });
      })
      .catch(() => {});
    return () => abort.abort();
  }, [head, keys]);
  return mass !== null && mass.of === head && mass.keys === keys ? mass.mass : 0;
}

/** A query's probabilities key by key, when they can be had beyond the overview; null while they are not there. */
export function useExactRow(
  head: HeadMatrix | undefined,
  query: number,
  filter: HeadFilter,
): Float32Array | null {
  const [row, setRow] = useState<{ of: HeadMatrix; place: string; values: Float32Array } | null>(null);
  const place = `${query} ${filterKey(filter)}`;
  useEffect(() => {
    const parts = head?.parts ?? null;
    if (head === undefined || parts === null || query >= head.queries) return;
    if (parts.rows !== null && !parts.rows.includes(query)) return;
    const abort = new AbortController();
    const box = { x: 0, y: query, width: head.keys, height: 1 };
    parts
      .read(box, 1, Math.min(MOST_KEYS, head.keys), abort.signal, filter)
      .then(({ values }) => setRow({ of: head, place, values: Float32Array.from(values) }))
      .catch(() => {});
    return () => abort.abort();
  }, [head, place]);
  return row !== null && row.of === head && row.place === place ? row.values : null;
}
