import type { Rect } from "./camera";
import type { TextStyle } from "./text_width";

export interface RectStyle {
  fill?: string;
  stroke?: string;
  lineWidth?: number;
  radius?: number;
  dash?: readonly number[];
  alpha?: number;
}

export interface PathStyle {
  stroke: string;
  lineWidth: number;
  dash?: readonly number[];
  alpha?: number;
  /** An arrow head at the end. */
  arrow?: boolean;
}

export interface WriteStyle {
  style: TextStyle;
  fill: string;
  align?: "left" | "center" | "right";
  /** Times the style's own size. */
  scale?: number;
  /** Painted behind the text, so that lines do not cross it. */
  backing?: string;
  alpha?: number;
}

/** What the graph is drawn with: a canvas, or an SVG document. */
export interface Pen {
  rect(box: Rect, style: RectStyle): void;
  /**
   * Curves through points (x, y alternating), which run straight into their ends. What several of them have in common
   * is drawn once: a line that branches is as dark before it branches as after.
   */
  paths(routes: readonly ArrayLike<number>[], style: PathStyle): void;
  /** A closed outline with straight sides. */
  polygon(points: ArrayLike<number>, fill: string, alpha?: number): void;
  /** `y` is the middle of the line. */
  text(text: string, x: number, y: number, style: WriteStyle): void;
}

const ARROW = 7;

/** The corners of an arrow head at the end of `points`. */
export function arrowHead(points: ArrayLike<number>, lineWidth: number): number[] {
  const n = points.length;
  const [x1, y1, x2, y2] = [points[n - 4]!, points[n - 3]!, points[n - 2]!, points[n - 1]!];
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const size = ARROW + lineWidth;
  const [bx, by] = [x2 - ux * size, y2 - uy * size];
  const half = size * 0.42;
  return [x2, y2, bx - uy * half, by + ux * half, bx + uy * half, by - ux * half];
}
