import { type CardText, cardText, mergedText } from "./card";
import type { DiffTree } from "./diff_tree";
import type { Frame } from "./look";
import { fitText, type TextStyle, textWidth } from "./text_width";

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

/** Writes a text smaller, and in the end cut, when it does not fit; returns the width it took. */
export function write(
  { pen, scale }: Frame,
  text: string,
  style: TextStyle,
  x: number,
  y: number,
  room: number,
  size: number,
  fill: string,
  alpha: number,
  backing?: string,
): number {
  if (room < 6 || !text) return 0;
  const whole = room / textWidth(text, style);
  const shrunk = Math.min(size, Math.max(whole, SMALLEST_WHOLE_TEXT / 13 / scale));
  const shown = fitText(text, style, room / shrunk);
  pen.text(shown, x, y, { style, fill, scale: shrunk, alpha, ...(backing ? { backing } : {}) });
  return textWidth(shown, style) * shrunk;
}
