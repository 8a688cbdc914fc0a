import type { DiffTree, SideName } from "./diff_tree";
import { type Flow, MODEL_OUTPUT, slicedFlowOf } from "./flow";
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
  const position = new Map<number, number>();
  children.forEach((child, index) => {
    position.set(child, index);
  });
  const builder = new LevelBuilder(node, children);
  for (const side of ["teacher", "student"] as const) {
    const flow = yield* slicedFlowOf(tree, side);
    if (!flow) continue;
    yield* collect(tree, node, side, flow, position, builder);
    if (node === 0) nameOutputs(tree, side, flow, position, builder);
  }
  return builder.finish();
}

function* collect(
  tree: DiffTree,
  node: number,
  side: SideName,
  flow: Flow,
  position: Map<number, number>,
  builder: LevelBuilder,
): Sliced<void> {
  for (let at = node + 1; at < tree.end[node]!; at++) {
    if ((at - node) % 1000 === 0) yield;
    const incoming = flow.incoming(at);
    const outgoing = flow.outgoing(at);
    if (!incoming.length && !outgoing.length) continue;
    const here = position.get(tree.childHolding(node, at))!;
    for (const edge of incoming) {
      const from = flow.from[edge]!;
      const tensor = flow.tensor[edge]!;
      if (from < 0) builder.enter(from, here, side, tensor, -1);
      else if (tree.contains(node, from)) {
        const there = position.get(tree.childHolding(node, from))!;
        if (there !== here) builder.inner(there, here, side, tensor, from);
      } else {
        const common = tree.commonAncestor(node, from);
        builder.enter(tree.childHolding(common, from), here, side, tensor, from);
      }
    }
    for (const edge of outgoing) {
      const to = flow.to[edge]!;
      if (to === MODEL_OUTPUT || !tree.contains(node, to)) builder.leave(here, side, flow.tensor[edge]!, at);
    }
  }
}

/** An output's pill is named after the first value that the model returns through it. */
function nameOutputs(
  tree: DiffTree,
  side: SideName,
  flow: Flow,
  position: Map<number, number>,
  builder: LevelBuilder,
): void {
  const named = new Set<number>();
  flow.to.forEach((to, edge) => {
    if (to !== MODEL_OUTPUT) return;
    const child = position.get(tree.childHolding(0, flow.from[edge]!));
    if (child === undefined || named.has(child)) return;
    named.add(child);
    builder.nameOutput(child, side, flow.tensor[edge]!);
  });
}

class LevelBuilder {
  private readonly inPorts = new Map<number, Port>();
  private readonly outPorts = new Map<number, Port>();
  private readonly edges = new Map<string, LevelEdge & { tensors: Set<number> }>();

  constructor(
    private readonly node: number,
    private readonly children: Int32Array,
  ) {}

  inner(from: number, to: number, side: SideName, tensor: number, producer: number): void {
    this.edge(`${from} ${to}`, from, to, side, tensor, producer);
  }

  enter(key: number, to: number, side: SideName, tensor: number, producer: number): void {
    port(this.inPorts, key, side, tensor);
    this.edge(`in ${key} ${to}`, key, to, side, tensor, producer);
  }

  leave(from: number, side: SideName, tensor: number, producer: number): void {
    port(this.outPorts, from, side, tensor);
    this.edge(`out ${from}`, from, from, side, tensor, producer);
  }

  nameOutput(from: number, side: SideName, tensor: number): void {
    const named = this.outPorts.get(from);
    if (named) named[side === "teacher" ? "teacherTensor" : "studentTensor"] = tensor;
  }

  finish(): Level {
    const places = (ports: Map<number, Port>, first: number) =>
      new Map(Array.from(ports.keys(), (key, index) => [key, first + index]));
    const inPlaces = places(this.inPorts, this.children.length);
    const outPlaces = places(this.outPorts, this.children.length + inPlaces.size);
    const edges: LevelEdge[] = [];
    for (const [name, { tensors, ...edge }] of this.edges) {
      edge.count = tensors.size;
      if (name.startsWith("in")) edge.from = inPlaces.get(edge.from)!;
      if (name.startsWith("out")) {
        edge.to = outPlaces.get(edge.from)!;
        this.outPorts.get(edge.from)!.count = edge.count;
      }
      edges.push(edge);
    }
    const outPorts = [...this.outPorts.values()].map((out) => ({ ...out, key: this.children[out.key]! }));
    return {
      node: this.node,
      children: this.children,
      inPorts: [...this.inPorts.values()],
      outPorts,
      edges,
    };
  }

  private edge(
    name: string,
    from: number,
    to: number,
    side: SideName,
    tensor: number,
    producer: number,
  ): void {
    let edge = this.edges.get(name);
    if (!edge) {
      edge = { from, to, teacherTensor: -1, studentTensor: -1, count: 0, producer, tensors: new Set() };
      this.edges.set(name, edge);
    }
    const field = side === "teacher" ? "teacherTensor" : "studentTensor";
    if (edge[field] < 0) edge[field] = tensor;
    // The student's values are told from the teacher's only to be counted apart when the teacher has none.
    if (side === "teacher" || edge.teacherTensor < 0) edge.tensors.add(tensor);
  }
}

function port(ports: Map<number, Port>, key: number, side: SideName, tensor: number): void {
  const known = ports.get(key) ?? { key, teacherTensor: -1, studentTensor: -1, count: 1 };
  const field = side === "teacher" ? "teacherTensor" : "studentTensor";
  if (known[field] < 0) known[field] = tensor;
  ports.set(key, known);
}
