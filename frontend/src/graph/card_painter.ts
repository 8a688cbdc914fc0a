import type { Rect } from "./camera";
import { HEADER_HEIGHT } from "./card";
import type { NodeColour } from "./colouring";
import { NodeType } from "./diff_tree";
import { legibleSize, textOf, write } from "./legible_text";
import type { Frame } from "./look";
import { FONT_PIXELS } from "./text_width";

/** Between the beginnings of a glyph and of the title after it; arrows are wide. */
const GLYPH_ROOM = 17;

/** The dotted place of something that a side does not have. */
export function gap({ pen, look, scale }: Frame, box: Rect, alpha: number): void {
  if (box.height * scale < 6) return;
  pen.rect(box, {
    stroke: look.palette.borderStrong,
    lineWidth: Math.max(1, 0.9 / scale),
    dash: [2, 3],
    radius: 6,
    alpha,
  });
}

export function container({ pen, look }: Frame, box: Rect, colour: NodeColour, alpha: number): void {
  pen.rect(box, {
    fill: look.palette.page,
    stroke: colour.line,
    lineWidth: 1.25,
    radius: 6,
    dash: colour.doubtful ? [5, 3] : [],
    alpha,
  });
  pen.rect(
    { ...box, height: Math.min(HEADER_HEIGHT - 2, box.height) },
    { fill: colour.fill, radius: 6, alpha: alpha * 0.85 },
  );
}

/** The name of an opened node, written after what is in it, so that no line crosses it. */
export function header(frame: Frame, node: number, box: Rect, colour: NodeColour, alpha: number): void {
  const { pen, look, scale } = frame;
  const { x, y, width } = box;
  if (!hasTitles(scale)) return;
  const { title, subtitle } = textOf(frame, node);
  const line = { y: y + HEADER_HEIGHT / 2 - 1, alpha, backing: colour.fill };
  const size = legibleSize("title", scale);
  const start = x + 10 + 12 * size;
  pen.text("▾", x + 8, line.y, { style: "body", fill: colour.ink, scale: size, alpha });
  const room = width - (start - x) - 8;
  const used = write(frame, { ...line, text: title, style: "title", x: start, room, size, fill: colour.ink });
  const rest = room - used - 10;
  if (scale < 0.6 || rest < 30) return;
  write(frame, {
    ...line,
    text: subtitle,
    style: "body",
    x: start + used + 8,
    room: rest,
    fill: look.palette.textSoft,
  });
}

export function card(frame: Frame, node: number, box: Rect, colour: NodeColour, alpha: number): void {
  const { pen, scene, look, scale } = frame;
  const { x, y, width, height } = box;
  const { tree } = scene;
  const isOperator = tree.type[node] === NodeType.OPERATOR;
  const radius = isOperator ? height / 2 : 6;
  if (height * scale < 5) {
    pen.rect(box, { fill: colour.line, alpha: alpha * 0.55 });
    return;
  }
  if (tree.type[node] === NodeType.FOLD && !scene.isOpen(node)) {
    for (const shift of [6, 3]) {
      pen.rect(
        { ...box, x: x + shift, y: y + shift },
        { fill: look.palette.page, stroke: colour.line, radius, alpha: alpha * 0.6 },
      );
    }
  }
  pen.rect(box, { fill: look.palette.page, radius, alpha });
  pen.rect(box, {
    fill: colour.fill,
    stroke: colour.line,
    lineWidth: 1.25,
    radius,
    dash: colour.doubtful ? [5, 3] : [],
    alpha,
  });
  if (!isOperator && height * scale > 14) composition(frame, node, box, alpha);
  if (!hasTitles(scale)) return;
  const { title, subtitle } = textOf(frame, node);
  const size = legibleSize("title", scale);
  const both = subtitle !== "" && scale > 0.6;
  const middle = both ? y + height * 0.34 : y + height / 2;
  const glyphRoom = colour.glyph ? GLYPH_ROOM * size : 0;
  if (colour.glyph) {
    pen.text(colour.glyph, x + 10, middle, { style: "title", fill: colour.ink, scale: size, alpha });
  }
  const chevron = tree.isExpandable(node) ? 12 : 0;
  const line = { x: x + 10 + glyphRoom, room: width - 18 - glyphRoom - chevron, alpha };
  const style = isOperator ? "body" : "title";
  write(frame, { ...line, text: title, style, y: middle, size, fill: look.palette.text });
  if (both) {
    const [room, fill] = [line.room + chevron, look.palette.textSoft];
    write(frame, { ...line, text: subtitle, style: "body", y: y + height * 0.7, room, fill });
  }
  if (chevron && scale > 0.4) {
    pen.text("▸", x + width - 8, middle, {
      style: "body",
      fill: look.palette.textSoft,
      align: "right",
      alpha,
    });
  }
}

/** Titles would be specks below this. */
function hasTitles(scale: number): boolean {
  return FONT_PIXELS.title * scale >= 4.5;
}

/** A bar at the foot of a closed module: which kinds are inside, in which shares. */
function composition({ pen, look }: Frame, node: number, box: Rect, alpha: number): void {
  const shares = look.counts.shares(node);
  if (shares.length < 2) return;
  const bar = { x: box.x + 7, y: box.y + box.height - 5, width: 0, height: 3 };
  for (const { kind, share } of shares) {
    bar.width = (box.width - 14) * share;
    pen.rect(bar, { fill: look.palette.tones[kind.tone].line, alpha });
    bar.x += bar.width;
  }
}
