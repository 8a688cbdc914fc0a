import type { DiffTree, SideName } from "./diff_tree";
import type { ModelSide } from "./model_side";
import { finishNow, type Sliced } from "./sliced";

/** `from` of an edge from the k-th input of the model is `inputKey(k)`, always below -1. */
export function inputKey(k: number): number {
  return -2 - k;
}

/** `to` of an edge to what the model returns. */
export const MODEL_OUTPUT = -1;

/**
 * The data flow of one side between nodes of the tree: operators, and module calls that run no operator and
 * return what they were given (Identity; Dropout in evaluation), which data passes through.
 */
export class Flow {
  private constructor(
    readonly from: Int32Array,
    readonly to: Int32Array,
    readonly tensor: Int32Array,
    /** Edges by the node that they lead to, and by the one that they come from. */
    readonly into: ByNode,
    readonly outOf: ByNode,
  ) {}

  /** The flow of a side, with pauses. */
  static *of(tree: DiffTree, side: SideName, model: ModelSide): Sliced<Flow> {
    const from: number[] = [];
    const to: number[] = [];
    const tensors: number[] = [];
    const add = (source: number, target: number, tensor: number) => {
      if (source === MODEL_OUTPUT || source === target) return;
      from.push(source);
      to.push(target);
      tensors.push(tensor);
    };
    const sources = new Sources(tree, side, model);
    yield;
    for (let operator = 0; operator < model.operatorCount; operator++) {
      if (operator % 1000 === 0) yield;
      const node = tree.operatorNode[side][operator]!;
      if (node < 0) continue;
      for (const tensor of model.operatorInputs(operator)) {
        add(sources.of(tensor, operator, model.callCount), node, tensor);
      }
    }
    for (const call of sources.passThrough) {
      const tensor = model.mainOutput(call, false);
      add(sources.of(tensor, model.operatorBegin[call]!, call), tree.callNode[side][call]!, tensor);
    }
    for (const tensor of new Set(model.tables.calls.row("outputs", 0))) {
      const source = sources.of(tensor, model.operatorCount, model.callCount);
      if (source >= 0) add(source, MODEL_OUTPUT, tensor);
    }
    const [starts, ends] = [Int32Array.from(from), Int32Array.from(to)];
    yield;
    const incoming = group(ends, tree.count);
    yield;
    const outgoing = group(starts, tree.count);
    return new Flow(starts, ends, Int32Array.from(tensors), incoming, outgoing);
  }

  /** Numbers of the edges into a node. */
  incoming(node: number): Uint32Array {
    return this.into.edges.subarray(this.into.offsets[node], this.into.offsets[node + 1]);
  }

  outgoing(node: number): Uint32Array {
    return this.outOf.edges.subarray(this.outOf.offsets[node], this.outOf.offsets[node + 1]);
  }
}

/** Where a value comes from, for someone who reads it at a given time. */
class Sources {
  /** Calls that return what they were given, in order. */
  readonly passThrough: number[] = [];
  private readonly passedBy = new Map<number, number[]>();
  private readonly inputs = new Map<number, number>();

  constructor(
    private readonly tree: DiffTree,
    private readonly side: SideName,
    private readonly model: ModelSide,
  ) {
    const { calls, tensors } = model.tables;
    const hasCalls = new Uint8Array(model.callCount);
    for (const parent of model.callParent) if (parent >= 0) hasCalls[parent] = 1;
    for (let call = 1; call < model.callCount; call++) {
      if (hasCalls[call] || model.operatorBegin[call] !== model.operatorEnd[call]) continue;
      const output = model.mainOutput(call, false);
      if (output < 0 || !calls.row("inputs", call).includes(output)) continue;
      if (tree.callNode[side][call]! < 0) continue;
      this.passThrough.push(call);
      const list = this.passedBy.get(output);
      if (list) list.push(call);
      else this.passedBy.set(output, [call]);
    }
    for (const tensor of calls.row("inputs", 0))
      if (!this.inputs.has(tensor)) this.inputs.set(tensor, this.inputs.size);
    const origin = tensors.number("origin");
    for (let tensor = 0; tensor < origin.length; tensor++) {
      const isOutside = origin[tensor] === INPUT || origin[tensor] === EXTERNAL;
      if (isOutside && !this.inputs.has(tensor)) this.inputs.set(tensor, this.inputs.size);
    }
  }

  /**
   * The node that `tensor` comes from when operator `position` runs, or call `before` begins: the last call
   * that passed it on, else the operator that made it, else an input's key. MODEL_OUTPUT when it is none of
   * these (a parameter or a constant).
   */
  of(tensor: number, position: number, before: number): number {
    const passed = this.passedBy.get(tensor);
    if (passed) {
      const call = passed.findLast(
        (candidate) => candidate < before && this.model.operatorBegin[candidate]! <= position,
      );
      if (call !== undefined) return this.tree.callNode[this.side][call]!;
    }
    const producer = this.model.producers[tensor]!;
    if (producer >= 0) return this.tree.operatorNode[this.side][producer]!;
    const ordinal = this.inputs.get(tensor);
    return ordinal === undefined ? MODEL_OUTPUT : inputKey(ordinal);
  }
}

/** Places of "input" and "external" among the format's origins. */
const INPUT = 1;
const EXTERNAL = 5;

/** Numbers of the edges at node n: `edges[offsets[n]] … edges[offsets[n + 1] - 1]`. */
export interface ByNode {
  offsets: Uint32Array;
  edges: Uint32Array;
}

/** Edges without a node (inputs, outputs) are left out. */
function group(ends: Int32Array, nodes: number): ByNode {
  const offsets = new Uint32Array(nodes + 1);
  for (const node of ends) if (node >= 0) offsets[node + 1]!++;
  for (let node = 0; node < nodes; node++) offsets[node + 1]! += offsets[node]!;
  const next = offsets.slice();
  const edges = new Uint32Array(offsets[nodes]!);
  ends.forEach((node, edge) => {
    if (node >= 0) edges[next[node]!++] = edge;
  });
  return { offsets, edges };
}

/** The flow of a side of a tree, made when first asked for; null without such a side. */
export function flowOf(tree: DiffTree, side: SideName): Flow | null {
  return finishNow(slicedFlowOf(tree, side));
}

/** As flowOf, with pauses. */
export function* slicedFlowOf(tree: DiffTree, side: SideName): Sliced<Flow | null> {
  const model = tree.side(side);
  if (!model) return null;
  let flows = known.get(tree);
  if (!flows) {
    flows = {};
    known.set(tree, flows);
  }
  flows[side] ??= yield* Flow.of(tree, side, model);
  return flows[side];
}

const known = new WeakMap<DiffTree, { teacher?: Flow; student?: Flow }>();
