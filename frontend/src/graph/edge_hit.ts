import type { SideName } from "./diff_tree";
import { edgeRoute, edgeSides } from "./edge_route";
import type { LevelEdge } from "./level";
import type { Scene } from "./scene";

export interface EdgeHit {
  edge: LevelEdge;
  side: SideName | "both";
}

/** The edge within `reach` of a point; null when there is none. */
export function hitEdge(scene: Scene, x: number, y: number, reach: number): EdgeHit | null {
  const apart = scene.drawings.length > 1;
  for (const side of scene.drawings) {
    const only = apart || !scene.tree.sides.student ? side : null;
    const found = hitLevel(scene, 0, apart ? scene.offset(side) : 0, 0, x, y, reach, only);
    if (found) return found;
  }
  return null;
}

function hitLevel(
  scene: Scene,
  node: number,
  left: number,
  top: number,
  x: number,
  y: number,
  reach: number,
  side: SideName | null,
): EdgeHit | null {
  const layout = scene.layout(node);
  if (!layout) return null;
  const level = scene.level(node);
  for (let index = 0; index < level.children.length; index++) {
    const child = level.children[index]!;
    const [cx, cy] = [left + layout.x[index]!, top + layout.y[index]!];
    if (x < cx || y < cy || x > cx + layout.w[index]! || y > cy + layout.h[index]!) continue;
    if (!scene.isOpen(child)) return null;
    const inner = hitLevel(scene, child, cx, cy, x, y, reach, side);
    if (inner) return inner;
  }
  let best: EdgeHit | null = null;
  let nearest = reach;
  level.edges.forEach((edge, index) => {
    const shown = edgeSides(edge, side);
    if (!shown) return;
    const distance = distanceTo(edgeRoute(scene, level, layout, index, left, top), x, y, nearest);
    if (distance < nearest) {
      nearest = distance;
      best = { edge, side: shown };
    }
  });
  return best;
}

function distanceTo(route: number[], x: number, y: number, limit: number): number {
  let nearest = limit;
  for (let at = 0; at + 3 < route.length; at += 2) {
    const [x1, y1, x2, y2] = [route[at]!, route[at + 1]!, route[at + 2]!, route[at + 3]!];
    const length = (x2 - x1) ** 2 + (y2 - y1) ** 2;
    const t = length ? Math.max(0, Math.min(1, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length)) : 0;
    nearest = Math.min(nearest, Math.hypot(x - x1 - t * (x2 - x1), y - y1 - t * (y2 - y1)));
  }
  return nearest;
}
