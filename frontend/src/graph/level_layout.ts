import { Graph, layout } from "@dagrejs/dagre";
import { layoutLayers } from "./layered";
import { findSkips, longestPathRanks } from "./ranks";
import { straightenPorts } from "./straighten";
import { stretch } from "./stretch";

/** One opened node to lay out. Edge ends are positions as in Level: children, in-ports, out-ports. */
export interface LevelSpec {
  /** Equal specs have equal numbers, so that equal blocks are laid out once. */
  id: number;
  /** Specs that differ only in what is opened have one outline. */
  outline: number;
  widths: Float32Array;
  heights: Float32Array;
  /** For each child the spec that fills it, -1 when it is closed. */
  nested: Int32Array;
  inPorts: number;
  outPorts: number;
  /** Sizes of port pills; 0 for points on a border. */
  portWidths: Float32Array;
  portHeight: number;
  from: Int32Array;
  to: Int32Array;
  /** Which models have each edge: 1 the teacher, 2 the student, 3 both. */
  sides: Uint8Array;
  labelWidths: Float32Array;
  headerHeight: number;
}

/** Where everything lies, relative to the opened node's top left corner. */
export interface LevelLayout {
  id: number;
  width: number;
  height: number;
  /** Children, then in-ports, then out-ports: top left corners and sizes. */
  x: Float32Array;
  y: Float32Array;
  w: Float32Array;
  h: Float32Array;
  /** Edge e runs through `points[2 * starts[e]] …` (x, y alternating). */
  points: Float32Array;
  starts: Uint32Array;
  labelX: Float32Array;
  labelY: Float32Array;
  /** In which models it passes by others (a residual or skip connection): as `sides` of a spec; 0 in none. */
  skips: Uint8Array;
  /** 1: it runs in the lane of its start, as others from there do. */
  isLane: Uint8Array;
}

export const PADDING = 14;
const RANK_GAP = 22;
const NODE_GAP = 18;
export const LABEL_HEIGHT = 14;
/** Beyond these, dagre takes too long (or its recursion too deep) and edges get lanes of their own. */
const MOST_CHILDREN = 300;
const LONGEST_SPAN = 10;
/** An edge to the next layer or the one after it needs no lane, wherever else its start leads. */
const NEAR = 2;
/** The input of a block is read by its projections and its residual; more readers share something else. */
const MOST_READERS = 8;
const LANE = 9;
/** How far from its corner a line of a lane is straight again. */
const BEND = 9;
const TALL = 30;

/**
 * Lays out one level. `nestedSize` gives the sizes of opened children, whose layouts come first; `closed` keeps the
 * drawings of outlines with everything closed.
 */
export function layoutLevel(
  spec: LevelSpec,
  nestedSize: (id: number) => { width: number; height: number },
  closed: Map<number, Placed> = new Map(),
): LevelLayout {
  const children = spec.widths.length;
  const total = children + spec.inPorts + spec.outPorts;
  const w = new Float32Array(total);
  const h = new Float32Array(total);
  for (let child = 0; child < children; child++) {
    const nested = spec.nested[child]!;
    const size =
      nested < 0 ? { width: spec.widths[child]!, height: spec.heights[child]! } : nestedSize(nested);
    w[child] = Math.max(size.width, nested < 0 ? 0 : spec.widths[child]!);
    h[child] = size.height;
  }
  for (let port = children; port < total; port++) {
    w[port] = spec.portWidths[port - children]!;
    h[port] = spec.portHeight;
  }
  const ranks = longestPathRanks(total, spec.from, spec.to);
  const isLong = longEdges(spec, ranks);
  const placed =
    children > MOST_CHILDREN ? layoutLayers(spec, w, h, ranks) : stretched(spec, w, h, isLong, closed);
  straightenPorts(spec, w, h, placed);
  return frame(spec, w, h, ranks, isLong, placed);
}

/**
 * Edges that get a lane beside the drawing: those that pass many layers, and with them whatever comes from the same
 * place. A mask that all blocks of a stack read would otherwise push the first blocks apart.
 */
function longEdges(spec: LevelSpec, ranks: Int32Array): Uint8Array {
  const span = (edge: number) => ranks[spec.to[edge]!]! - ranks[spec.from[edge]!]!;
  const reachFar = new Set(spec.from.filter((_, edge) => span(edge) > LONGEST_SPAN));
  return Uint8Array.from(spec.from, (from, edge) =>
    span(edge) > LONGEST_SPAN || (reachFar.has(from) && span(edge) > NEAR) ? 1 : 0,
  );
}

/**
 * Residual and skip connections, of each model by its own edges: what passes by a part that only the other one has is
 * none. What many read at the border, as all blocks read a mask, passes nothing by either.
 */
function skips(spec: LevelSpec, ranks: Int32Array): Uint8Array {
  const children = spec.widths.length;
  const found = new Uint8Array(spec.from.length);
  for (const side of [1, 2]) {
    const own = Array.from(spec.sides.keys()).filter((edge) => spec.sides[edge]! & side);
    const from = Int32Array.from(own, (edge) => spec.from[edge]!);
    const to = Int32Array.from(own, (edge) => spec.to[edge]!);
    const readers = new Uint32Array(ranks.length);
    for (const node of from) readers[node]!++;
    findSkips(ranks.length, from, to, ranks).forEach((isSkip, at) => {
      const isShared = from[at]! >= children && readers[from[at]!]! > MOST_READERS;
      if (isSkip && !isShared) found[own[at]!]! |= side;
    });
  }
  return found;
}

/** The drawing with everything closed, moved apart for what is open. */
function stretched(
  spec: LevelSpec,
  w: Float32Array,
  h: Float32Array,
  isLong: Uint8Array,
  closed: Map<number, Placed>,
): Placed {
  const children = spec.widths.length;
  const from = { w: w.slice(), h: h.slice() };
  from.w.set(spec.widths);
  from.h.set(spec.heights);
  let base = closed.get(spec.outline);
  if (!base) {
    base = layoutDagre(spec, from.w, from.h, isLong);
    closed.set(spec.outline, base);
  }
  const placed = stretch(base, from, { w, h }, spec);
  squareRoutes(placed.routes, placed.y, h, children);
  return placed;
}

/** Positions of the middles, in no particular frame. */
export interface Placed {
  x: Float32Array;
  y: Float32Array;
  routes: (number[] | null)[];
  labels: ([number, number] | null)[];
}

function layoutDagre(spec: LevelSpec, w: Float32Array, h: Float32Array, isLong: Uint8Array): Placed {
  const total = w.length;
  const children = spec.widths.length;
  const firstOut = children + spec.inPorts;
  const graph = new Graph({ multigraph: true });
  graph.setGraph({
    rankdir: "TB",
    ranksep: RANK_GAP,
    nodesep: NODE_GAP,
    edgesep: 14,
    marginx: 0,
    marginy: 0,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  const hasIn = new Uint8Array(total);
  const hasOut = new Uint8Array(total);
  for (let node = 0; node < total; node++) {
    graph.setNode(String(node), { width: Math.max(1, w[node]!), height: Math.max(1, h[node]!) });
  }
  spec.from.forEach((from, edge) => {
    if (isLong[edge]) return;
    const to = spec.to[edge]!;
    hasOut[from] = 1;
    hasIn[to] = 1;
    const label = spec.labelWidths[edge]!;
    const size = label > 0 ? { width: label, height: LABEL_HEIGHT, labelpos: "c" as const } : {};
    graph.setEdge(
      String(from),
      String(to),
      { ...size, weight: from < children && to < children ? 2 : 1 },
      String(edge),
    );
  });
  // Weightless edges hold the in-ports at the top and the out-ports at the bottom.
  const anchor = { weight: 0, minlen: 1 };
  if (spec.inPorts) {
    graph.setNode("top", { width: 1, height: 1 });
    for (let node = 0; node < total; node++) {
      const isPort = node >= children && node < firstOut;
      if (isPort) graph.setEdge("top", String(node), { weight: 8, minlen: 1 }, "anchor");
      else if (!hasIn[node]) graph.setEdge("top", String(node), anchor, "anchor");
    }
  }
  if (spec.outPorts) {
    graph.setNode("bottom", { width: 1, height: 1 });
    for (let node = 0; node < total; node++) {
      if (node >= firstOut) graph.setEdge(String(node), "bottom", { weight: 8, minlen: 1 }, "anchor");
      else if (!hasOut[node]) graph.setEdge(String(node), "bottom", anchor, "anchor");
    }
  }
  layout(graph);
  const x = new Float32Array(total);
  const y = new Float32Array(total);
  for (let node = 0; node < total; node++) {
    const placed = graph.node(String(node));
    x[node] = placed.x!;
    y[node] = placed.y!;
  }
  const routes: (number[] | null)[] = [];
  const labels: ([number, number] | null)[] = [];
  spec.from.forEach((from, edge) => {
    const placed = isLong[edge] ? null : graph.edge(String(from), String(spec.to[edge]), String(edge));
    routes.push(
      placed?.points ? placed.points.flatMap((point: { x: number; y: number }) => [point.x, point.y]) : null,
    );
    labels.push(placed?.x !== undefined && placed.y !== undefined ? [placed.x, placed.y] : null);
  });
  return { x, y, routes, labels };
}

/**
 * dagre bends an edge once a layer, in the layer's middle. Beside a tall (opened) child that cuts its corners,
 * so the edge is led straight past the whole height of the layer.
 */
function squareRoutes(routes: (number[] | null)[], y: Float32Array, h: Float32Array, children: number): void {
  const halfHeights = new Map<number, number>();
  for (let child = 0; child < children; child++) {
    const layer = Math.round(y[child]!);
    halfHeights.set(layer, Math.max(halfHeights.get(layer) ?? 0, h[child]! / 2));
  }
  routes.forEach((route, edge) => {
    if (!route || route.length < 6) return;
    const squared = route.slice(0, 2);
    for (let at = 2; at < route.length - 2; at += 2) {
      const half = halfHeights.get(Math.round(route[at + 1]!)) ?? 0;
      if (half < TALL / 2) squared.push(route[at]!, route[at + 1]!);
      else squared.push(route[at]!, route[at + 1]! - half, route[at]!, route[at + 1]! + half);
    }
    routes[edge] = [...squared, ...route.slice(-2)];
  });
}

/** Out of a node, sideways to a lane `below` it, along the lane, and back: with tight corners, however long it is. */
function alongLane(start: [number, number], end: [number, number], lane: number, below: number): number[] {
  const [sx, sy] = start;
  const [ex, ey] = end;
  const turn = sy + below;
  const out = [sx, turn - 2, sx + BEND, turn, lane - BEND, turn, lane, turn + 2, lane, turn + 2 + BEND];
  const back = [lane, ey - 11 - BEND, lane, ey - 11, lane - BEND, ey - 9, ex + BEND, ey - 9, ex, ey - 7];
  return [...start, ...out, ...back, ...end];
}

/** Moves everything into the opened node's frame: header above, ports onto the border, long edges into lanes. */
function frame(
  spec: LevelSpec,
  w: Float32Array,
  h: Float32Array,
  ranks: Int32Array,
  isLong: Uint8Array,
  placed: Placed,
): LevelLayout {
  const children = spec.widths.length;
  const firstOut = children + spec.inPorts;
  const hasPills = spec.portHeight > 0;
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let node = 0; node < w.length; node++) {
    left = Math.min(left, placed.x[node]! - w[node]! / 2);
    right = Math.max(right, placed.x[node]! + w[node]! / 2);
    if (node >= children && !hasPills) continue;
    top = Math.min(top, placed.y[node]! - h[node]! / 2);
    bottom = Math.max(bottom, placed.y[node]! + h[node]! / 2);
  }
  placed.routes.forEach((route, edge) => {
    const label = placed.labels[edge];
    if (label && spec.labelWidths[edge]! > 0) {
      left = Math.min(left, label[0] - spec.labelWidths[edge]! / 2);
      right = Math.max(right, label[0] + spec.labelWidths[edge]! / 2);
    }
    for (let at = 0; route && at < route.length; at += 2) {
      left = Math.min(left, route[at]!);
      right = Math.max(right, route[at]!);
    }
  });
  if (!Number.isFinite(left)) [left, right] = [0, 0];
  if (!Number.isFinite(top)) [top, bottom] = [0, 0];

  const lanes = new Map<number, number>();
  isLong.forEach((long, edge) => {
    if (long && !lanes.has(spec.from[edge]!)) lanes.set(spec.from[edge]!, lanes.size);
  });
  const dx = PADDING - left;
  const entry = spec.inPorts && !hasPills ? 18 : 0;
  const exit = spec.outPorts && !hasPills ? 18 : 0;
  const dy = spec.headerHeight + PADDING / 2 + entry - top;
  const width = right - left + 2 * PADDING + lanes.size * LANE;
  const height = bottom - top + spec.headerHeight + PADDING * 1.5 + entry + exit;

  const x = placed.x.map((middle, node) => middle + dx - w[node]! / 2);
  const y = placed.y.map((middle, node) => middle + dy - h[node]! / 2);
  if (!hasPills) {
    for (let port = children; port < w.length; port++) y[port] = port < firstOut ? 0 : height;
  }
  // What comes through the upper border turns below the header, not across the name in it.
  const laneDepth = (from: number) =>
    from >= children && !hasPills ? spec.headerHeight + 4 + 4 * Math.min(3, lanes.get(from) ?? 0) : 9;
  const routes = placed.routes.map((route, edge) => {
    const from = spec.from[edge]!;
    const to = spec.to[edge]!;
    const start: [number, number] = [x[from]! + w[from]! / 2, y[from]! + h[from]!];
    const end: [number, number] = [x[to]! + w[to]! / 2, y[to]!];
    if (!route) {
      if (!isLong[edge]) return [...start, ...end];
      const lane = right + dx + PADDING / 2 + LANE * (lanes.get(from) ?? 0);
      return alongLane(start, end, lane, laneDepth(from));
    }
    const points = route.map((value, index) => value + (index % 2 ? dy : dx));
    // A port's route ends on the border, not where the layered drawing had it.
    if (from >= children && !hasPills) points.splice(0, 2, ...start);
    if (to >= children && !hasPills) points.splice(-2, 2, ...end);
    return points;
  });
  const starts = new Uint32Array(routes.length + 1);
  routes.forEach((route, edge) => {
    starts[edge + 1] = starts[edge]! + route.length / 2;
  });
  return {
    id: spec.id,
    width,
    height,
    x,
    y,
    w,
    h,
    points: Float32Array.from(routes.flat()),
    starts,
    // Of what runs in a lane it stands on the line, beside where it turns.
    labelX: Float32Array.from(routes, (route, edge) =>
      placed.labels[edge]
        ? placed.labels[edge][0] + dx
        : route[0]! + (isLong[edge] ? BEND + spec.labelWidths[edge]! / 2 : 0),
    ),
    labelY: Float32Array.from(routes, (route, edge) =>
      placed.labels[edge]
        ? placed.labels[edge][1] + dy
        : route[1]! + (isLong[edge] ? laneDepth(spec.from[edge]!) : 10),
    ),
    skips: skips(spec, ranks),
    isLane: isLong,
  };
}
