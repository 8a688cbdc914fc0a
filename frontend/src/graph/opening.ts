import { type DiffTree, NodeType } from "./diff_tree";

/** The first picture holds about this many nodes. */
const FIRST_PICTURE = 26;
const DEEPEST = 3;

/** What is open at first: the model, and then whatever fits, shallow nodes first. Stacks stay folded. */
export function firstOpening(tree: DiffTree): Set<number> {
  const open = new Set([0]);
  let shown = tree.children(0).length;
  let layer = [...tree.children(0)];
  for (let depth = 1; depth < DEEPEST; depth++) {
    const next: number[] = [];
    for (const node of layer) {
      if (!tree.isExpandable(node) || tree.type[node] !== NodeType.CALL) continue;
      const children = tree.children(node);
      if (shown + children.length - 1 > FIRST_PICTURE) continue;
      shown += children.length - 1;
      open.add(node);
      next.push(...children);
    }
    layer = next;
  }
  return open;
}
