import { KINDS, type KindStyle } from "../ui/kinds";
import { type DiffTree, NodeType } from "./diff_tree";

/** How many leaves of each kind lie below a node. Leaves are what cannot be opened, operators inside them aside. */
export class KindCounts {
  /** For each kind, how many of its leaves come before a node. */
  private readonly sums: Map<number, Uint32Array> = new Map();

  constructor(private readonly tree: DiffTree) {
    const kindOfLeaf = new Int16Array(tree.count).fill(-1);
    for (let node = 0; node < tree.count; node++) if (this.isLeaf(node)) kindOfLeaf[node] = tree.kind[node]!;
    for (const { kind } of KINDS) {
      const sums = new Uint32Array(tree.count + 1);
      for (let node = 0; node < tree.count; node++) {
        sums[node + 1] = sums[node]! + (kindOfLeaf[node] === kind ? 1 : 0);
      }
      this.sums.set(kind, sums);
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
