import type { Rect } from "./camera";
import { HEADER_HEIGHT } from "./card";
import { NodeType } from "./diff_tree";
import type { Place, Scene } from "./scene";

/** Pixels around a grip within which it can be taken; a finger is less exact than a mouse. */
export const GRIP_REACH = 9;
export const GRIP_REACH_TOUCH = 20;

/** The handle of a module on one side, from which a line can be drawn to the part that it shall be paired with. */
export interface Grip {
  x: number;
  y: number;
}

/** On the edge that faces the other model; null for what cannot be paired by hand. */
export function gripOf(scene: Scene, { node, side }: Place): Grip | null {
  const { tree } = scene;
  if (node <= 0 || !tree.sides.student || tree.type[node] !== NodeType.CALL || !tree.hasSide(node, side))
    return null;
  const rect = scene.rect(node, side);
  return rect && gripOn(rect, side === "student" && scene.drawings.length > 1, scene.isOpen(node));
}

export function gripOn(rect: Rect, isLeft: boolean, isOpen: boolean): Grip {
  // An open one has its chevron at the left of the header.
  return { x: isLeft ? rect.x : rect.x + rect.width, y: rect.y + (isOpen ? HEADER_HEIGHT : rect.height / 2) };
}

/** Whether a line from one place may end at another: modules, of one model each. */
export function canPair({ tree, drawings }: Scene, from: Place, to: Place): boolean {
  if (from.node === to.node && from.side === to.side) return false;
  if (tree.type[to.node] !== NodeType.CALL || to.node <= 0) return false;
  if (drawings.length > 1) return from.side !== to.side && tree.hasSide(to.node, to.side);
  const goes = (a: number, b: number) => tree.hasSide(a, "teacher") && tree.hasSide(b, "student");
  return goes(from.node, to.node) || goes(to.node, from.node);
}
