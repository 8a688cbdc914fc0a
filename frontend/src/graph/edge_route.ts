import type { SideName } from "./diff_tree";
import type { Level, LevelEdge } from "./level";
import type { LevelLayout } from "./level_layout";
import type { Scene } from "./scene";

/** Which sides an edge is drawn for; null when it is not on the side asked for (null: both). */
export function edgeSides(edge: LevelEdge, side: SideName | null): SideName | "both" | null {
  const [t, s] = [edge.teacherTensor >= 0, edge.studentTensor >= 0];
  if (side === "teacher") return t ? "teacher" : null;
  if (side === "student") return s ? "student" : null;
  return t && s ? "both" : t ? "teacher" : s ? "student" : null;
}

/**
 * The route of edge `index` with the level at (x, y). Where an end is an opened node, the route runs to that
 * node's port, so that the line continues inside.
 */
export function edgeRoute(
  scene: Scene,
  level: Level,
  layout: LevelLayout,
  index: number,
  x: number,
  y: number,
): number[] {
  const edge = level.edges[index]!;
  const route: number[] = [];
  for (let at = 2 * layout.starts[index]!; at < 2 * layout.starts[index + 1]!; at += 2) {
    route.push(layout.points[at]! + x, layout.points[at + 1]! + y);
  }
  const from = level.children[edge.from];
  if (from !== undefined && scene.isOpen(from)) {
    const at = portOffset(scene, from, "out", scene.tree.childHolding(from, edge.producer));
    if (at !== null) {
      route[0] = x + layout.x[edge.from]! + at;
      route[1] = y + layout.y[edge.from]! + layout.h[edge.from]!;
    }
  }
  const to = level.children[edge.to];
  if (to !== undefined && scene.isOpen(to)) {
    const key = from ?? level.inPorts[edge.from - level.children.length]?.key;
    const at = key === undefined ? null : portOffset(scene, to, "in", key);
    if (at !== null) {
      route[route.length - 2] = x + layout.x[edge.to]! + at;
      route[route.length - 1] = y + layout.y[edge.to]!;
    }
  }
  return route;
}

function portOffset(scene: Scene, node: number, way: "in" | "out", key: number): number | null {
  const layout = scene.layout(node);
  if (!layout) return null;
  const level = scene.level(node);
  const ports = way === "in" ? level.inPorts : level.outPorts;
  const index = ports.findIndex((port) => port.key === key);
  if (index < 0) return null;
  const at = level.children.length + (way === "in" ? 0 : level.inPorts.length) + index;
  return layout.x[at]! + layout.w[at]! / 2;
}
