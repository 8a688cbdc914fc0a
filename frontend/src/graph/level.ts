import type { DiffTree, SideName } from "./diff_tree";
import { type Flow, MODEL_OUTPUT, slicedFlowOf } from "./flow";
import { lastAtMost } from "./last_at_most";
import { finishNow, type Sliced } from "./sliced";

/**
 * What one opened node shows: its children, the data flow among them, and ports where data crosses its border.
 *
 * Edge ends are positions: below `children.length` a child, then the in-ports, then the out-ports.
 */
export interface Level {
  node: number;
  children: Int32Array;
  inPorts: Port[];
  outPorts: Port[];
  edges: LevelEdge[];
}

/** Where data enters or leaves an opened node. */
export interface Port {
  /**
   * In-port: the node (beside the opened one or beside one around it) that the data comes from, or
   * `inputKey(k)`. Out-port: the child that the data comes from. The same key names the same port on both
   * sides of a border.
   */
  key: number;
  teacherTensor: number;
  studentTensor: number;
  /** How many different values pass. */
  count: number;
}

export interface LevelEdge {
  from: number;
  to: number;
  /** One of the values that flow here; -1 on a side that has none. */
  teacherTensor: number;
  studentTensor: number;
  /** How many different values flow here. */
  count: number;
  /** Node that the value comes from; -1 for inputs. It names the out-port of an opened `from`. */
  producer: number;
}

export function buildLevel(tree: DiffTree, node: number): Level {
  return finishNow(levelOf(tree, node));
}

/** As buildLevel, with pauses. */
export function* levelOf(tree: DiffTree, node: number): Sliced<Level> {
  const children = tree.children(node);
  const builder = new LevelBuilder(node, children);
  for (const side of ["teacher", "student"] as const) {
    const flow = yield* slicedFlowOf(tree, side);
    if (!flow) continue;
    yield* collect(tree, node, side, flow, builder);
    if (node === 0) nameOutputs(tree, side, flow, builder);
  }
  return builder.finish();
}

function* collect(
  tree: DiffTree,
  node: number,
  side: SideName,
  flow: Flow,
  builder: LevelBuilder,
): Sliced<void> {
  const { from: starts, to: ends, tensor, into, outOf } = flow;
  const { children } = builder;
  const end = tree.end[node]!;
  let here = 0;
  for (let at = node + 1; at < end; at++) {
    if ((at - node) % 1000 === 0) yield;
    while (at >= tree.end[children[here]!]!) here++;
    for (let place = into.offsets[at]!; place < into.offsets[at + 1]!; place++) {
      const edge = into.edges[place]!;
      const from = starts[edge]!;
      if (from < 0) builder.enter(from, here, side, tensor[edge]!, -1);
      else if (tree.contains(node, from)) {
        const there = builder.position(from);
        if (there !== here) builder.inner(there, here, side, tensor[edge]!, from);
      } else {
        const common = tree.commonAncestor(node, from);
        builder.enter(tree.childHolding(common, from), here, side, tensor[edge]!, from);
      }
    }
    for (let place = outOf.offsets[at]!; place < outOf.offsets[at + 1]!; place++) {
      const edge = outOf.edges[place]!;
      const to = ends[edge]!;
      if (to === MODEL_OUTPUT || !tree.contains(node, to)) builder.leave(here, side, tensor[edge]!, at);
    }
  }
}

/** An output's pill is named after the first value that the model returns through it. */
function nameOutputs(tree: DiffTree, side: SideName, flow: Flow, builder: LevelBuilder): void {
  const named = new Set<number>();
  flow.to.forEach((to, edge) => {
    if (to !== MODEL_OUTPUT) return;
    const from = flow.from[edge]!;
    if (!tree.contains(0, from) || from === 0) return;
    const child = builder.position(from);
    if (named.has(child)) return;
    named.add(child);
    builder.nameOutput(child, side, flow.tensor[edge]!);
  });
}

/** Larger than minus any key of an input, of which there are as many as tensors at most. */
const KEY_SHIFT = 2 ** 31;

class LevelBuilder {
  private readonly inPorts = new Map<number, Port>();
  private readonly outPorts = new Map<number, Port>();
  private readonly edges: LevelEdge[] = [];
  /** Numbers of the edges, by what tells them apart: both ends of an inner one, source and child, the child. */
  private readonly within = new Map<number, number>();
  private readonly entering = new Map<number, number>();
  private readonly leaving = new Map<number, number>();
  /** The values that are counted on an edge: the first, and all when there are several. */
  private readonly first: number[] = [];
  private readonly all: (Set<number> | undefined)[] = [];

  constructor(
    private readonly node: number,
    readonly children: Int32Array,
  ) {}

  /** Which child holds a node within. */
  position(node: number): number {
    return lastAtMost(this.children, node);
  }

  inner(from: number, to: number, side: SideName, tensor: number, producer: number): void {
    this.edge(this.within, from * this.children.length + to, from, to, side, tensor, producer);
  }

  enter(key: number, to: number, side: SideName, tensor: number, producer: number): void {
    port(this.inPorts, key, side, tensor);
    const name = (key + KEY_SHIFT) * this.children.length + to;
    this.edge(this.entering, name, key, to, side, tensor, producer);
  }

  leave(from: number, side: SideName, tensor: number, producer: number): void {
    port(this.outPorts, from, side, tensor);
    this.edge(this.leaving, from, from, from, side, tensor, producer);
  }

  nameOutput(from: number, side: SideName, tensor: number): void {
    const named = this.outPorts.get(from);
    if (named) named[side === "teacher" ? "teacherTensor" : "studentTensor"] = tensor;
  }

  finish(): Level {
    const { children, edges } = this;
    const places = (ports: Map<number, Port>, first: number) =>
      new Map(Array.from(ports.keys(), (key, index) => [key, first + index]));
    const inPlaces = places(this.inPorts, children.length);
    const outPlaces = places(this.outPorts, children.length + inPlaces.size);
    edges.forEach((edge, number) => {
      edge.count = this.all[number]?.size ?? (this.first[number]! >= 0 ? 1 : 0);
    });
    for (const number of this.entering.values()) edges[number]!.from = inPlaces.get(edges[number]!.from)!;
    for (const [from, number] of this.leaving) {
      edges[number]!.to = outPlaces.get(from)!;
      this.outPorts.get(from)!.count = edges[number]!.count;
    }
    const outPorts = [...this.outPorts.values()].map((out) => ({ ...out, key: children[out.key]! }));
    return { node: this.node, children, inPorts: [...this.inPorts.values()], outPorts, edges };
  }

  private edge(
    known: Map<number, number>,
    name: number,
    from: number,
    to: number,
    side: SideName,
    tensor: number,
    producer: number,
  ): void {
    let number = known.get(name);
    if (number === undefined) {
      number = this.edges.push({ from, to, teacherTensor: -1, studentTensor: -1, count: 0, producer }) - 1;
      known.set(name, number);
      this.first.push(-1);
    }
    const edge = this.edges[number]!;
    const field = side === "teacher" ? "teacherTensor" : "studentTensor";
    if (edge[field] < 0) edge[field] = tensor;
    // The student's values are told from the teacher's only to be counted apart when the teacher has none.
    if (side !== "teacher" && edge.teacherTensor >= 0) return;
    const first = this.first[number]!;
    if (first < 0) this.first[number] = tensor;
    else if (first !== tensor) {
      const all = this.all[number] ?? new Set([first]);
      this.all[number] = all.add(tensor);
    }
  }
}

function port(ports: Map<number, Port>, key: number, side: SideName, tensor: number): void {
  let known = ports.get(key);
  if (!known) {
    known = { key, teacherTensor: -1, studentTensor: -1, count: 1 };
    ports.set(key, known);
  }
  const field = side === "teacher" ? "teacherTensor" : "studentTensor";
  if (known[field] < 0) known[field] = tensor;
}
