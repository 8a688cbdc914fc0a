import { type DiffTree, NodeType, type SideName } from "./diff_tree";
import type { ModelSide } from "./model_side";
import { finishNow, type Sliced } from "./sliced";

/**
 * A name for a node that holds over reloads, steps and other pairings of the same models:
 * `S:encoder.layer.2`, with `#1` for the second call of a module, `/softmax:0` for an operator in a call, `*`
 * for the fold that begins with a call. The student's name is used where there is one.
 */
export function nodeKey(tree: DiffTree, node: number): string {
  const side: SideName = tree.hasSide(node, "student") ? "student" : "teacher";
  return `${side === "student" ? "S" : "T"}:${sideKey(tree, node, side)}`;
}

function sideKey(tree: DiffTree, node: number, side: SideName): string {
  const model = tree.side(side)!;
  const row = tree[side][node]!;
  if (tree.type[node] === NodeType.FOLD) return `${callKey(tree, side, row)}*`;
  if (tree.type[node] === NodeType.CALL) return callKey(tree, side, row);
  const call = model.operatorCall[row]!;
  const name = model.operatorName(row);
  let ordinal = 0;
  for (let other = model.operatorBegin[call]!; other < row; other++) {
    if (model.operatorCall[other] === call && model.operatorName(other) === name) ordinal++;
  }
  return `${callKey(tree, side, call)}/${name}:${ordinal}`;
}

function callKey(tree: DiffTree, side: SideName, call: number): string {
  const model = tree.side(side)!;
  const ordinal = callOrdinal(tree, side, call);
  return model.callPath(call) + (ordinal ? `#${ordinal}` : "");
}

/** How many calls of the same module came before, in the whole pass. */
function callOrdinal(tree: DiffTree, side: SideName, call: number): number {
  const model = tree.side(side)!;
  let ordinals = knownOrdinals.get(model);
  if (!ordinals) {
    const calls = new Uint32Array(model.tables.modules.rows);
    ordinals = Uint32Array.from(model.callModule, (module: number) => calls[module]!++);
    knownOrdinals.set(model, ordinals);
  }
  return ordinals[call]!;
}

const knownOrdinals = new WeakMap<ModelSide, Uint32Array>();

/** Finds nodes by their keys. */
export class KeyIndex {
  constructor(
    private readonly tree: DiffTree,
    private readonly nodes: ReadonlyMap<string, number> = finishNow(nodesByKey(tree)),
  ) {}

  /** As the constructor, with pauses. */
  static *of(tree: DiffTree): Sliced<KeyIndex> {
    return new KeyIndex(tree, yield* nodesByKey(tree));
  }

  /** The node with this key; for an operator that is gone the call around it; -1 when nothing fits. */
  find(key: string): number {
    const known = this.nodes.get(key);
    if (known !== undefined) return known;
    // The first slash: paths hold none, but operators may be called "/".
    const slash = key.indexOf("/");
    if (slash < 0) return -1;
    const call = this.nodes.get(key.slice(0, slash));
    if (call === undefined) return -1;
    const [name, ordinal] = key.slice(slash + 1).split(/:(?=\d+$)/);
    const side: SideName = key.startsWith("S") ? "student" : "teacher";
    const model = this.tree.side(side)!;
    const row = this.tree[side][call]!;
    let seen = 0;
    for (let operator = model.operatorBegin[row]!; operator < model.operatorEnd[row]!; operator++) {
      if (model.operatorCall[operator] !== row || model.operatorName(operator) !== name) continue;
      if (seen++ === Number(ordinal)) return this.tree.operatorNode[side][operator]!;
    }
    return call;
  }
}

function* nodesByKey(tree: DiffTree): Sliced<Map<string, number>> {
  const nodes = new Map<string, number>();
  for (let node = 0; node < tree.count; node++) {
    if (node % 1000 === 0) yield;
    if (tree.type[node] === NodeType.OPERATOR) continue;
    for (const side of ["teacher", "student"] as const) {
      if (!tree.hasSide(node, side)) continue;
      const key = `${side === "student" ? "S" : "T"}:${sideKey(tree, node, side)}`;
      if (!nodes.has(key)) nodes.set(key, node);
    }
  }
  return nodes;
}
