import { FONT, MONO } from "../ui/tokens";

let context: CanvasRenderingContext2D | null | undefined;
const known = new Map<string, number>();

export type TextStyle = "title" | "body" | "mono" | "small";

export const FONT_PIXELS: Record<TextStyle, number> = { title: 13, body: 12, mono: 11, small: 10.5 };

export const FONTS: Record<TextStyle, string> = {
  title: `500 ${FONT_PIXELS.title}px ${FONT}`,
  body: `${FONT_PIXELS.body}px ${FONT}`,
  mono: `${FONT_PIXELS.mono}px ${MONO}`,
  small: `${FONT_PIXELS.small}px ${FONT}`,
};

/** Width of a text in pixels at scale 1. */
export function textWidth(text: string, style: TextStyle): number {
  const key = `${style} ${text}`;
  const width = known.get(key);
  if (width !== undefined) return width;
  context ??= document.createElement("canvas").getContext("2d");
  let measured = text.length * (style === "mono" ? 6.7 : 6.5);
  if (context) {
    context.font = FONTS[style];
    measured = context.measureText(text).width;
  }
  if (known.size > 50_000) known.clear();
  known.set(key, measured);
  return measured;
}

/** `text`, or as much of its beginning as fits with "…". */
export function fitText(text: string, style: TextStyle, width: number): string {
  if (textWidth(text, style) <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${text.slice(0, middle)}…`, style) <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
