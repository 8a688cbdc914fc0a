import { edgeLabel, mergedEdgeLabel } from "./card";
import type { DiffTree, SideName } from "./diff_tree";
import { edgeRoute, edgeSides } from "./edge_route";
import { MOST_LABELS } from "./layout_plan";
import type { Level } from "./level";
import type { LevelLayout } from "./level_layout";
import type { Frame } from "./look";
import type { PathStyle, Pen } from "./pen";

/** The data flow of one level. */
export function edges(
  frame: Frame,
  model: Level,
  layout: LevelLayout,
  x: number,
  y: number,
  alpha: number,
): void {
  const { pen, scene, look, side, scale, view } = frame;
  if (scale < 0.1 || alpha < 0.03) return;
  const { palette } = look;
  const { tree } = scene;
  const boxes = edgeBoxes(model, layout);
  const lanes = new Lanes();
  // As in the layout's `skips`.
  const drawn = side === null ? 3 : side === "teacher" ? 1 : 2;
  const labels: { text: string; index: number; strong: boolean }[] = [];
  const [left, top, right, bottom] = [
    view.x - x,
    view.y - y,
    view.x + view.width - x,
    view.y + view.height - y,
  ];
  for (let index = 0; index < model.edges.length; index++) {
    const at = 4 * index;
    if (boxes[at]! > right || boxes[at + 1]! > bottom || boxes[at + 2]! < left || boxes[at + 3]! < top)
      continue;
    const edge = model.edges[index]!;
    const shown = edgeSides(edge, side);
    if (!shown) continue;
    const route = edgeRoute(scene, model, layout, index, x, y);
    const from = model.children[edge.from] ?? -1;
    const to = model.children[edge.to] ?? -1;
    const isSkip = (layout.skips[index]! & drawn) > 0;
    const touches = (node: number) => node >= 0 && (node === look.selected || node === look.hovered);
    const strong = touches(from) || touches(to);
    const faint = (from >= 0 && look.isFaint(from)) || (to >= 0 && look.isFaint(to));
    const only = side === null ? shown : "both";
    const tone =
      only === "teacher" && tree.sides.student
        ? palette.tones.vermillion.line
        : only === "student"
          ? palette.tones.green.line
          : null;
    const colour = strong ? palette.focus : (tone ?? (isSkip ? palette.textSoft : palette.textFaint));
    const weight = look.weighEdges ? edgeWeight(tree, edge, side) : isSkip ? 1.8 : 1.1;
    const style: PathStyle = {
      stroke: colour,
      lineWidth: Math.max(strong ? weight + 0.8 : weight, 0.6 / scale),
      alpha: faint ? alpha * 0.2 : alpha * (isSkip || strong ? 1 : 0.85),
      dash: tone && !strong ? [5, 3] : [],
      arrow: scale > 0.35 && edge.to < model.children.length,
    };
    if (layout.isLane[index]) lanes.add(edge.from, route, style);
    else pen.paths([route], style);
    if (isSkip && scale > 0.35) {
      const [cx, cy] = [route[0]!, route[1]!];
      const dot = { x: cx - 2.5, y: cy - 2.5, width: 5, height: 5 };
      pen.rect(dot, { fill: colour, radius: 2.5, alpha: faint ? alpha * 0.2 : alpha });
    }
    if (scale < 0.5 || faint) continue;
    const text =
      side === null
        ? mergedEdgeLabel(tree, edge)
        : edgeLabel(
            tree.side(side),
            side === "teacher" ? edge.teacherTensor : edge.studentTensor,
            edge.count,
          );
    if (model.edges.length <= MOST_LABELS) labels.push({ text, index, strong });
  }
  lanes.draw(pen);
  const isLane = ({ index }: { index: number }) => layout.isLane[index] === 1;
  // A lane is named once, where it begins, unless something beside it comes from there with the same name.
  const named = new Set<string>();
  labels.sort((a, b) => Number(isLane(a)) - Number(isLane(b)));
  for (const label of labels) {
    const { text, index, strong } = label;
    const name = `${model.edges[index]!.from} ${text}`;
    if (isLane(label) && named.has(name)) continue;
    named.add(name);
    pen.text(text, x + layout.labelX[index]!, y + layout.labelY[index]!, {
      style: "mono",
      fill: strong ? palette.text : palette.textSoft,
      align: "center",
      backing: palette.page,
      alpha,
    });
  }
}

/** Edges that run in the lanes of one level, those of one start and style together. */
class Lanes {
  private readonly groups = new Map<string, { routes: number[][]; style: PathStyle }>();

  add(from: number, route: number[], style: PathStyle): void {
    const key = [from, ...Object.values(style)].join();
    const group = this.groups.get(key) ?? { routes: [], style };
    group.routes.push(route);
    this.groups.set(key, group);
  }

  draw(pen: Pen): void {
    for (const { routes, style } of this.groups.values()) pen.paths(routes, style);
  }
}

function edgeWeight(
  tree: DiffTree,
  edge: { teacherTensor: number; studentTensor: number },
  side: SideName | null,
): number {
  const own = side === "student" || edge.teacherTensor < 0 ? "student" : "teacher";
  const tensor = own === "student" ? edge.studentTensor : edge.teacherTensor;
  const bytes = tree.side(own)?.tables.tensors.number("bytes")[tensor] ?? 0;
  return 0.8 + Math.max(0, Math.log10(bytes + 1) - 2) * 0.75;
}

/**
 * Left, top, right and bottom of each edge, however its ends are moved to ports of opened nodes. Found once, for a
 * stack may have thousands of edges and is drawn on every frame.
 */
function edgeBoxes(model: Level, layout: LevelLayout): Float32Array {
  const known = knownBoxes.get(layout);
  if (known) return known;
  const boxes = new Float32Array(4 * model.edges.length);
  model.edges.forEach(({ from, to }, index) => {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    const reach = (x: number, y: number) => {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    };
    for (let point = layout.starts[index]!; point < layout.starts[index + 1]!; point++) {
      reach(layout.points[2 * point]!, layout.points[2 * point + 1]!);
    }
    for (const [node, height] of [
      [from, layout.h[from]!],
      [to, 0],
    ] as const) {
      reach(layout.x[node]!, layout.y[node]! + height);
      reach(layout.x[node]! + layout.w[node]!, layout.y[node]! + height);
    }
    boxes.set([left, top, right, bottom], 4 * index);
  });
  knownBoxes.set(layout, boxes);
  return boxes;
}

const knownBoxes = new WeakMap<LevelLayout, Float32Array>();
