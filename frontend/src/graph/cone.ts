import { type DiffTree, NodeType } from "./diff_tree";

export type Direction = "upstream" | "downstream";

/** All nodes from which data reaches `start` (upstream), or that data from `start` reaches, `start` included; per node 1. */
export function cone(tree: DiffTree, start: number, direction: Direction): Uint8Array {
  const inside = new Uint8Array(tree.count);
  for (const side of ["teacher", "student"] as const) {
    const model = tree.side(side);
    if (!model) continue;
    const { producers, readers } = model;
    const seen = new Uint8Array(model.operatorCount);
    const open: number[] = [];
    const visit = (operator: number) => {
      if (operator < 0 || seen[operator]) return;
      seen[operator] = 1;
      open.push(operator);
    };
    for (let node = start; node < tree.end[start]!; node++) {
      if (tree.type[node] === NodeType.OPERATOR) visit(tree[side][node]!);
    }
    for (let operator = open.pop(); operator !== undefined; operator = open.pop()) {
      if (direction === "upstream") {
        for (const tensor of model.operatorInputs(operator)) visit(producers[tensor]!);
      } else {
        for (const tensor of model.operatorOutputs(operator)) {
          for (let at = readers.offsets[tensor]!; at < readers.offsets[tensor + 1]!; at++)
            visit(readers.operators[at]!);
        }
      }
    }
    seen.forEach((isSeen, operator) => {
      const node = tree.operatorNode[side][operator]!;
      if (isSeen && node >= 0) inside[node] = 1;
    });
  }
  for (let node = start; node < tree.end[start]!; node++) inside[node] = 1;
  // What holds something of the cone belongs to it.
  for (let node = tree.count - 1; node > 0; node--) if (inside[node]) inside[tree.parent[node]!] = 1;
  return inside;
}
