import type { DiffTree } from "../../graph/diff_tree";
import type { KindCounts } from "../../graph/kind_counts";
import { lastAtMost } from "../../graph/last_at_most";

/** Nodes in the order of the outline, which is that of their numbers. */
export type OutlineRows = readonly number[];

/**
 * The rows of the outline: the root, and what is inside opened nodes. With a filter, only nodes of those kinds and what
 * holds them.
 */
export function outlineRows(
  tree: DiffTree,
  open: ReadonlySet<number>,
  filter: ReadonlySet<number>,
  counts: KindCounts,
): OutlineRows {
  const kinds = [...filter];
  const passes = (node: number) =>
    kinds.length === 0 || filter.has(tree.kind[node]!) || kinds.some((kind) => counts.count(node, kind) > 0);
  const rows: number[] = [];
  let node = 0;
  while (node < tree.count) {
    const isShown = node === 0 || passes(node);
    if (isShown) rows.push(node);
    node = isShown && open.has(node) && tree.isExpandable(node) ? node + 1 : tree.end[node]!;
  }
  return rows;
}

/** Where a node's row is; -1 when it has none. */
export function rowOf(rows: OutlineRows, node: number): number {
  const row = lastAtMost(rows, node);
  return rows[row] === node ? row : -1;
}
