import type { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import { lastAtMost } from "./last_at_most";
import type { ModelSide } from "./model_side";

/** What a node of the merged tree is. */
export const NodeType = { CALL: 0, OPERATOR: 1, FOLD: 2 } as const;
export type NodeTypeValue = (typeof NodeType)[keyof typeof NodeType];

export type SideName = "teacher" | "student";

/**
 * The two models as one tree: module calls, the operators within them, and folds of repeated blocks.
 *
 * Nodes are numbered in preorder, so a node's descendants are the numbers up to `end[node]`. `teacher` and
 * `student` are rows of the side's `module_calls` or `operators` by the node's type, -1 where the side has
 * none; a fold has rows of the first call that it holds.
 */
export class DiffTree {
  readonly count: number;
  /** Node of each side's operator. */
  readonly operatorNode: Record<SideName, Int32Array>;
  /** Node of each side's module call. */
  readonly callNode: Record<SideName, Int32Array>;
  private readonly childLists = new Map<number, Int32Array>();
  private readonly ungroupedNodes: Record<SideName, Map<number, { first: number; last: number } | null>> = {
    teacher: new Map(),
    student: new Map(),
  };

  constructor(
    readonly sides: { teacher: ModelSide; student: ModelSide | null },
    readonly type: Uint8Array,
    readonly parent: Int32Array,
    readonly end: Int32Array,
    readonly teacher: Int32Array,
    readonly student: Int32Array,
    /** Row of Alignment.pairs; -1 for operators and folds. */
    readonly pair: Int32Array,
    readonly kind: Uint8Array,
    readonly confidence: Float32Array,
  ) {
    this.count = type.length;
    const numbers = (side: SideName, wanted: NodeTypeValue, rows: number) => {
      const found = new Int32Array(rows).fill(-1);
      for (let node = 0; node < this.count; node++) {
        const row = this[side][node]!;
        if (this.type[node] === wanted && row >= 0 && found[row] === -1) found[row] = node;
      }
      return found;
    };
    const { teacher: t, student: s } = sides;
    this.operatorNode = {
      teacher: numbers("teacher", NodeType.OPERATOR, t.operatorCount),
      student: numbers("student", NodeType.OPERATOR, s?.operatorCount ?? 0),
    };
    this.callNode = {
      teacher: numbers("teacher", NodeType.CALL, t.callCount),
      student: numbers("student", NodeType.CALL, s?.callCount ?? 0),
    };
  }

  /** Direct children, in order. */
  children(node: number): Int32Array {
    const known = this.childLists.get(node);
    if (known) return known;
    const found: number[] = [];
    for (let child = node + 1; child < this.end[node]!; child = this.end[child]!) found.push(child);
    const children = Int32Array.from(found);
    this.childLists.set(node, children);
    return children;
  }

  contains(ancestor: number, node: number): boolean {
    return ancestor <= node && node < this.end[ancestor]!;
  }

  /** The child of `ancestor` that holds `node`; -1 when none does. */
  childHolding(ancestor: number, node: number): number {
    if (node === ancestor || !this.contains(ancestor, node)) return -1;
    const children = this.children(ancestor);
    return children[lastAtMost(children, node)]!;
  }

  /** The smallest node that holds both. */
  commonAncestor(a: number, b: number): number {
    let node = a;
    while (!this.contains(node, b)) node = this.parent[node]!;
    return node;
  }

  /**
   * Whether opening a node shows something new. A module whose only content is one operator of its own (Linear
   * around `linear`) is shown as one thing.
   */
  isExpandable(node: number): boolean {
    if (this.type[node] === NodeType.OPERATOR) return false;
    const first = node + 1;
    const end = this.end[node]!;
    if (first >= end) return false;
    return !(end === first + 1 && this.type[first] === NodeType.OPERATOR);
  }

  /** How many nodes can be opened. */
  get expandableCount(): number {
    let count = 0;
    for (let node = 0; node < this.count; node++) if (this.isExpandable(node)) count++;
    return count;
  }

  /** Ancestors, nearest first. */
  *ancestors(node: number): Generator<number> {
    for (let at = this.parent[node]!; at >= 0; at = this.parent[at]!) yield at;
  }

  kindOf(node: number): PairKind {
    return this.kind[node] as PairKind;
  }

  hasSide(node: number, side: SideName): boolean {
    return this[side][node]! >= 0;
  }

  /**
   * The first and the last outermost node of a side below one that the side itself lacks: what the other model has
   * grouped stands side by side here. Null when the side has nothing there.
   */
  ungrouped(node: number, side: SideName): { first: number; last: number } | null {
    const known = this.ungroupedNodes[side].get(node);
    if (known !== undefined) return known;
    let [first, last] = [-1, -1];
    for (let at = node + 1; at < this.end[node]!; ) {
      if (!this.hasSide(at, side)) at++;
      else {
        if (first < 0) first = at;
        last = at;
        at = this.end[at]!;
      }
    }
    const found = first < 0 ? null : { first, last };
    this.ungroupedNodes[side].set(node, found);
    return found;
  }

  /** Whether a side's part is shown at another node already: several parts of one side may be paired with one. */
  isEcho(node: number, side: SideName): boolean {
    const row = this[side][node]!;
    if (row < 0 || this.type[node] === NodeType.FOLD) return false;
    const first = this.type[node] === NodeType.CALL ? this.callNode[side][row] : this.operatorNode[side][row];
    return first !== node;
  }

  side(name: SideName): ModelSide | null {
    return this.sides[name];
  }
}
