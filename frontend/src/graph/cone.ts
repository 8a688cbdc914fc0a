import type { DiffTree } from "./diff_tree";
import { flowOf } from "./flow";

export type Direction = "upstream" | "downstream";

/**
 * All nodes from which data reaches `start` (upstream), or that data from `start` reaches (downstream), what is
 * in `start` included; 1 for each such node.
 */
export function cone(tree: DiffTree, start: number, direction: Direction): Uint8Array {
  const inside = new Uint8Array(tree.count);
  for (const side of ["teacher", "student"] as const) {
    const flow = flowOf(tree, side);
    if (!flow) continue;
    const seen = new Uint8Array(tree.count);
    const open: number[] = [];
    const visit = (node: number) => {
      if (node < 0 || seen[node]) return;
      seen[node] = 1;
      inside[node] = 1;
      open.push(node);
    };
    for (let node = start; node < tree.end[start]!; node++) visit(node);
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (direction === "upstream") for (const edge of flow.incoming(node)) visit(flow.from[edge]!);
      else for (const edge of flow.outgoing(node)) visit(flow.to[edge]!);
    }
  }
  // What holds something of the cone belongs to it.
  for (let node = tree.count - 1; node > 0; node--) if (inside[node]) inside[tree.parent[node]!] = 1;
  return inside;
}
