import { KINDS, type KindStyle } from "../ui/kinds";
import { type DiffTree, NodeType } from "./diff_tree";

/** How many leaves of each kind lie below a node. Leaves are what cannot be opened, operators inside them aside. */
export class KindCounts {
  private readonly sums: Map<number, Uint32Array> = new Map();

  constructor(private readonly tree: DiffTree) {
    for (const { kind } of KINDS) this.sums.set(kind, new Uint32Array(tree.count + 1));
    for (let node = 0; node < tree.count; node++) {
      const counted = this.isLeaf(node) ? tree.kind[node]! : -1;
      for (const [kind, sums] of this.sums) sums[node + 1] = sums[node]! + (kind === counted ? 1 : 0);
    }
  }

  isLeaf(node: number): boolean {
    const { tree } = this;
    if (tree.isExpandable(node)) return false;
    return tree.type[node] !== NodeType.OPERATOR || tree.isExpandable(tree.parent[node]!);
  }

  count(node: number, kind: number): number {
    const sums = this.sums.get(kind);
    return sums ? sums[this.tree.end[node]!]! - sums[node]! : 0;
  }

  /** The kinds below a node with their shares of the leaves, in the legend's order; kinds without leaves left out. */
  shares(node: number): { kind: KindStyle; share: number }[] {
    const counts = KINDS.map((kind) => ({ kind, share: this.count(node, kind.kind) }));
    const total = counts.reduce((sum, { share }) => sum + share, 0);
    return total
      ? counts.filter(({ share }) => share).map(({ kind, share }) => ({ kind, share: share / total }))
      : [];
  }
}
