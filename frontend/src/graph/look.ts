import type { Palette } from "../ui/tokens";
import type { Rect } from "./camera";
import type { NodeColour } from "./colouring";
import type { SideName } from "./diff_tree";
import type { KindCounts } from "./kind_counts";
import type { Pen } from "./pen";
import type { Scene } from "./scene";

/** Everything about the picture that is not where things lie. */
export interface Look {
  /** Another object whenever colours, faintness or results changed; not for selection and hovering. */
  picture: object;
  palette: Palette;
  selected: number;
  /** A second node, to be paired with the selected one; -1 for none. */
  marked: number;
  hovered: number;
  isFaint: (node: number) => boolean;
  isMatch: (node: number) => boolean;
  colour: (node: number, side: SideName) => NodeColour;
  counts: KindCounts;
  /** Whether modules have a grip to be paired by. */
  canPair: boolean;
  /** Draw edges as wide as what flows is large. */
  weighEdges: boolean;
}

/** One pass over the picture. */
export interface Frame {
  pen: Pen;
  scene: Scene;
  look: Look;
  /** What is visible, in the drawing's coordinates. */
  view: Rect;
  scale: number;
  /** The picture before, while one turns into the other; progress runs from 0 to 1. */
  previous: Scene | null;
  progress: number;
  /** Null in the merged drawing. */
  side: SideName | null;
}
