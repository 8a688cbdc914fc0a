import { cone } from "../../graph/cone";
import type { DiffTree, SideName } from "../../graph/diff_tree";
import type { DimensionOrigin } from "../../graph/dimension_origin";
import type { Comparison } from "./comparison";

/** What is followed from the selected node on. */
export type Followed = "upstream" | "downstream" | "between" | null;

/** 1 for each node outside of the way of a dimension, else of what is followed, else of the kinds; null when none is. */
export function outside(
  comparison: Comparison,
  way: { side: SideName; origin: DimensionOrigin } | null,
  { selected, marked, followed }: { selected: number; marked: number; followed: Followed },
  kinds: ReadonlySet<number>,
): Uint8Array | null {
  const { tree } = comparison;
  if (way) return outsideOfWay(tree, way.side, way.origin);
  return outsideOfCone(tree, selected, marked, followed) ?? outsideOfKinds(comparison, kinds);
}

/** 1 for each node that a dimension did not come through. */
export function outsideOfWay(tree: DiffTree, side: SideName, { steps }: DimensionOrigin): Uint8Array {
  const outside = new Uint8Array(tree.count).fill(1);
  for (const { operator } of steps) {
    const node = tree.operatorNode[side][operator]!;
    if (node < 0) continue;
    outside[node] = 0;
    for (const ancestor of tree.ancestors(node)) outside[ancestor] = 0;
  }
  return outside;
}

/** 1 for each node that does not belong to what is followed; null when nothing is. */
export function outsideOfCone(
  tree: DiffTree,
  selected: number,
  marked: number,
  followed: Followed,
): Uint8Array | null {
  if (!followed || selected <= 0) return null;
  if (followed !== "between") return inverted(cone(tree, selected, followed));
  return marked > 0 ? inverted(between(tree, selected, marked)) : null;
}

/** 1 for each node that neither is nor holds one of the kinds; null without kinds. */
export function outsideOfKinds({ tree, counts }: Comparison, kinds: ReadonlySet<number>): Uint8Array | null {
  if (!kinds.size) return null;
  const outside = new Uint8Array(tree.count);
  for (let node = 0; node < tree.count; node++) {
    const own = kinds.has(tree.kind[node]!);
    outside[node] = own || [...kinds].some((kind) => counts.count(node, kind) > 0) ? 0 : 1;
  }
  return outside;
}

function inverted(inside: Uint8Array): Uint8Array {
  return inside.map((isIn) => 1 - isIn);
}

/** Everything on a way from one node to the other, whichever comes first. */
function between(tree: DiffTree, a: number, b: number): Uint8Array {
  const [first, last] = [Math.min(a, b), Math.max(a, b)];
  const down = cone(tree, first, "downstream");
  const up = cone(tree, last, "upstream");
  return down.map((isIn, node) => isIn & up[node]!);
}
