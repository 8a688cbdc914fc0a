import { useEffect, useState } from "preact/hooks";
import type { MatrixPatch } from "../../heatmap/matrix_canvas";
import { wholePositions } from "../../heatmap/matrix_window";
import type { Box } from "../../heatmap/rasterize";
import type { HeadMatrix } from "./head_matrix";

/** Cells a side that a part is read with: more than there are pixels show nothing. */
const MOST_CELLS = 512;
/** Moving and zooming ask for many parts; the one at rest is read. */
const REST_MS = 80;
/** Keys of a row that are read one by one. */
const MOST_KEYS = 8192;

/** Full resolution of the part in view, when the head is stored in parts and it has arrived. */
export function usePatch(head: HeadMatrix | undefined, view: Box | null): MatrixPatch | null {
  const [patch, setPatch] = useState<{ of: HeadMatrix; patch: MatrixPatch } | null>(null);
  useEffect(() => {
    const parts = head?.parts ?? null;
    if (head === undefined || parts === null || parts.rows !== null) return;
    const all = { x: 0, y: 0, width: head.keys, height: head.queries };
    const box = wholePositions(view ?? all, 0.25, head.queries, head.keys);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      parts
        .read(box, Math.min(MOST_CELLS, box.height), Math.min(MOST_CELLS, box.width), abort.signal)
        .then((matrix) => setPatch({ of: head, patch: { matrix, box } }))
        // The overview stays where a part cannot be had: too large at once, or no longer wanted.
        .catch(() => {});
    }, REST_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [head, view]);
  return patch !== null && patch.of === head ? patch.patch : null;
}

/** A query's probabilities key by key, when they can be had beyond the overview; null while they are not there. */
export function useExactRow(head: HeadMatrix | undefined, query: number): Float32Array | null {
  const [row, setRow] = useState<{ of: HeadMatrix; query: number; values: Float32Array } | null>(null);
  useEffect(() => {
    const parts = head?.parts ?? null;
    if (head === undefined || parts === null || query >= head.queries) return;
    if (parts.rows !== null && !parts.rows.includes(query)) return;
    const abort = new AbortController();
    const box = { x: 0, y: query, width: head.keys, height: 1 };
    parts
      .read(box, 1, Math.min(MOST_KEYS, head.keys), abort.signal)
      .then(({ values }) => setRow({ of: head, query, values: Float32Array.from(values) }))
      .catch(() => {});
    return () => abort.abort();
  }, [head, query]);
  return row !== null && row.of === head && row.query === query ? row.values : null;
}
