import type { DiffTree } from "../../graph/diff_tree";
import type { KindCounts } from "../../graph/kind_counts";

export interface OutlineRow {
  node: number;
  depth: number;
}

/**
 * The rows of the outline, in order: the root, and what is inside opened nodes. With a filter, only nodes of
 * those kinds and what holds them.
 */
export function outlineRows(
  tree: DiffTree,
  open: ReadonlySet<number>,
  filter: ReadonlySet<number>,
  counts: KindCounts,
): OutlineRow[] {
  const kinds = [...filter];
  const passes = (node: number) =>
    kinds.length === 0 || filter.has(tree.kind[node]!) || kinds.some((kind) => counts.count(node, kind) > 0);
  const rows: OutlineRow[] = [];
  const visit = (node: number, depth: number) => {
    rows.push({ node, depth });
    if (!open.has(node) || !tree.isExpandable(node)) return;
    for (const child of tree.children(node)) if (passes(child)) visit(child, depth + 1);
  };
  if (tree.count) visit(0, 0);
  return rows;
}
