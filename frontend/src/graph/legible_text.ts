import { type CardText, cardText, mergedText } from "./card";
import type { DiffTree } from "./diff_tree";
import type { Frame } from "./look";
import { FONT_PIXELS, fitText, type TextStyle, textWidth } from "./text_width";

/** Letters are drawn larger than the picture's scale asks for, rather than smaller than this on the screen. */
export const SMALLEST_TEXT = 9.5;

/** What a card says. Kept, for it is asked for on every frame. */
export function textOf({ scene: { tree }, side }: Frame, node: number): CardText {
  let texts = known.get(tree);
  if (!texts) {
    texts = new Map();
    known.set(tree, texts);
  }
  const key = 3 * node + (side === null ? 2 : side === "student" ? 1 : 0);
  let text = texts.get(key);
  if (!text) {
    text = side === null ? mergedText(tree, node) : cardText(tree, node, side);
    texts.set(key, text);
  }
  return text;
}

const known = new WeakMap<DiffTree, Map<number, CardText>>();

/** Smallest height of letters on the screen before a text is cut instead. */
const SMALLEST_WHOLE_TEXT = 7.5;

/** How much larger than its own size a style is drawn so that it can be read at a scale of the picture. */
export function legibleSize(style: TextStyle, scale: number, smallest = SMALLEST_TEXT): number {
  return Math.max(1, smallest / FONT_PIXELS[style] / scale);
}

export interface Writing {
  text: string;
  style: TextStyle;
  /** The end at which the text begins, or its middle when it is centred; and the middle of the line. */
  x: number;
  y: number;
  /** Width that it may take. */
  room: number;
  fill: string;
  /** Times the style's own size. */
  size?: number;
  align?: "center";
  alpha?: number;
  backing?: string;
}

/** Writes a text smaller, and in the end cut, when it does not fit; returns the width it took. */
export function write({ pen, scale }: Frame, writing: Writing): number {
  const { text, style, x, y, room, size = 1, ...look } = writing;
  if (room < 6 || !text) return 0;
  const whole = room / textWidth(text, style);
  const shrunk = Math.min(size, Math.max(whole, SMALLEST_WHOLE_TEXT / FONT_PIXELS[style] / scale));
  const shown = fitText(text, style, room / shrunk);
  pen.text(shown, x, y, { style, scale: shrunk, ...look });
  return textWidth(shown, style) * shrunk;
}
