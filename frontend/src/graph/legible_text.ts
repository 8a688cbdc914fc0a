import { cardText, mergedText } from "./card";
import type { Frame } from "./look";
import { fitText, type TextStyle, textWidth } from "./text_width";

/** Letters are drawn larger than the picture's scale asks for, rather than smaller than this on the screen. */
export const SMALLEST_TEXT = 9.5;

export function textOf({ scene, side }: Frame, node: number) {
  return side === null ? mergedText(scene.tree, node) : cardText(scene.tree, node, side);
}

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
