import { type DiffTree, NodeType } from "./diff_tree";

/** The first picture holds about this many nodes. */
const FIRST_PICTURE = 40;
const DEEPEST = 3;

/**
 * What is open at first: the model, then its modules level by level, as long as a whole level fits. Stacks stay
 * folded.
 */
export function firstOpening(tree: DiffTree): Set<number> {
  const open = new Set([0]);
  let shown = tree.children(0).length;
  let layer = [...tree.children(0)];
  for (let depth = 1; depth < DEEPEST; depth++) {
    const opening = layer.filter((node) => tree.type[node] === NodeType.CALL && holdsModules(tree, node));
    const next = opening.flatMap((node) => [...tree.children(node)]);
    shown += next.length - opening.length;
    if (shown > FIRST_PICTURE || !opening.length) break;
    for (const node of opening) open.add(node);
    layer = next;
  }
  return open;
}

/** Modules of nothing but operators are shown closed: how a norm is computed is not the first thing to see. */
function holdsModules(tree: DiffTree, node: number): boolean {
  return tree.children(node).some((child) => tree.type[child] !== NodeType.OPERATOR);
}
