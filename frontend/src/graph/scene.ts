import type { Rect } from "./camera";
import type { Arrangement } from "./card";
import type { DiffTree, SideName } from "./diff_tree";
import type { LayoutPlan } from "./layout_plan";
import type { Level } from "./level";
import type { LevelLayout } from "./level_layout";

/** Between the teacher's and the student's drawing. */
export const GUTTER = 72;
/** Room for the models' names above the drawings. */
export const HEADING = 36;

export interface Place {
  node: number;
  side: SideName;
}

/** One state of the picture: which nodes are open and where everything lies. */
export class Scene {
  constructor(
    readonly plan: LayoutPlan,
    private readonly specs: Map<number, number>,
  ) {}

  get tree(): DiffTree {
    return this.plan.tree;
  }

  get arrangement(): Arrangement {
    return this.plan.arrangement;
  }

  /** How many nodes are open, the model itself included. */
  get openCount(): number {
    return this.specs.size;
  }

  isOpen(node: number): boolean {
    return this.specs.has(node);
  }

  level(node: number): Level {
    return this.plan.level(node);
  }

  layout(node: number): LevelLayout | undefined {
    const id = this.specs.get(node);
    return id === undefined ? undefined : this.plan.layouts.get(id);
  }

  /** The sides that are drawn apart, left to right. */
  get drawings(): SideName[] {
    return this.arrangement === "merged" || !this.tree.sides.student ? ["teacher"] : ["teacher", "student"];
  }

  /** Where a side's drawing begins. */
  offset(side: SideName): number {
    return side === "teacher" ? 0 : (this.layout(0)?.width ?? 0) + GUTTER;
  }

  bounds(): Rect {
    const root = this.layout(0);
    const width = root?.width ?? 1;
    return {
      x: 0,
      y: -HEADING,
      width: width * this.drawings.length + GUTTER * (this.drawings.length - 1),
      height: (root?.height ?? 1) + HEADING,
    };
  }

  /** The node itself, or the closed node around it that stands for it. */
  shown(node: number): number {
    let shown = node;
    for (const ancestor of this.tree.ancestors(node)) if (!this.isOpen(ancestor)) shown = ancestor;
    return shown;
  }

  /** Where a node is drawn on a side; null when it is inside a closed node, or the root. */
  rect(node: number, side: SideName = "teacher"): Rect | null {
    if (node <= 0) return null;
    let x = this.drawings.length > 1 ? this.offset(side) : 0;
    let y = 0;
    let size: { width: number; height: number } | null = null;
    let at = node;
    while (at > 0) {
      const parent = this.tree.parent[at]!;
      const layout = this.layout(parent);
      if (!layout) return null;
      const index = this.tree.children(parent).indexOf(at);
      x += layout.x[index]!;
      y += layout.y[index]!;
      size ??= { width: layout.w[index]!, height: layout.h[index]! };
      at = parent;
    }
    return size && { x, y, ...size };
  }

  /** The innermost node drawn at a point; null between nodes. */
  hit(x: number, y: number): Place | null {
    for (const side of this.drawings) {
      const node = this.hitLevel(0, x - (this.drawings.length > 1 ? this.offset(side) : 0), y);
      if (node < 0) continue;
      const own =
        this.drawings.length > 1 ? side : this.tree.hasSide(node, "teacher") ? "teacher" : "student";
      return { node, side: own };
    }
    return null;
  }

  private hitLevel(node: number, x: number, y: number): number {
    const layout = this.layout(node);
    if (!layout) return -1;
    const { children } = this.level(node);
    for (let index = 0; index < children.length; index++) {
      const [left, top] = [layout.x[index]!, layout.y[index]!];
      if (x < left || y < top || x > left + layout.w[index]! || y > top + layout.h[index]!) continue;
      const child = children[index]!;
      const inner = this.isOpen(child) ? this.hitLevel(child, x - left, y - top) : -1;
      return inner >= 0 ? inner : child;
    }
    return -1;
  }
}
