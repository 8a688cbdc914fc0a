import type { Rect } from "./camera";
import { HEADER_HEIGHT, nodeName } from "./card";
import { card, container, gap, header } from "./card_painter";
import { type DiffTree, NodeType, type SideName } from "./diff_tree";
import { edges } from "./edge_painter";
import { legibleSize, textOf, write } from "./legible_text";
import type { Level } from "./level";
import type { LevelLayout } from "./level_layout";
import type { Frame, Look } from "./look";
import { gripOn } from "./pair_grip";
import type { Pen } from "./pen";
import { pillText } from "./port_name";
import { GUTTER, HEADING, type Scene } from "./scene";

/** An opened node with less height on the screen than this is drawn closed. */
const SMALLEST_LEVEL = 26;
/** Smallest height on the screen of the models' names, and of the glyphs between partners. */
const HEADING_TEXT = 10;
const GLYPH_TEXT = 11;

export function paint(
  pen: Pen,
  scene: Scene,
  look: Look,
  view: Rect,
  scale: number,
  previous: Scene | null = null,
  progress = 1,
): void {
  const isPair = scene.drawings.length > 1;
  const base = { pen, scene, look, view, scale, previous, progress };
  // While things move the bands would not meet their cards.
  if (isPair && progress >= 1) ribbons(base);
  for (const side of scene.drawings) {
    const frame: Frame = { ...base, side: isPair ? side : scene.tree.sides.student ? null : "teacher" };
    const x = isPair ? mix(previous?.offset(side) ?? scene.offset(side), scene.offset(side), progress) : 0;
    heading(frame, x);
    level(frame, 0, x, 0, 1);
  }
}

function heading(frame: Frame, x: number): void {
  const { scene, look, side, scale } = frame;
  const { teacher, student } = scene.tree.sides;
  const of = (model: typeof teacher) => `${model.label}  ${model.callClass(0)}  ${model.usualDtype}`;
  const text =
    side === null && student
      ? `T ${of(teacher)}   ↔   S ${of(student)}`
      : student
        ? side === "teacher"
          ? `T  ${of(teacher)}`
          : `S  ${of(student)}`
        : of(teacher);
  const width = scene.layout(0)?.width ?? 0;
  const size = legibleSize("title", scale, HEADING_TEXT);
  if (size > 3) return;
  const room = Math.max(width, 120);
  const place = { x: x + width / 2, y: -HEADING / 2, room, size, align: "center" } as const;
  write(frame, { text, style: "title", fill: look.palette.text, ...place });
}

/** Bands between partners at the top level, each with its kind's glyph. */
function ribbons({ pen, scene, look, view, scale }: Omit<Frame, "side">): void {
  const layout = scene.layout(0);
  if (!layout || scale < 0.12) return;
  const shift = scene.offset("student");
  const { tree } = scene;
  scene.level(0).children.forEach((node, index) => {
    if (!tree.hasSide(node, "teacher") || !tree.hasSide(node, "student")) return;
    const y = layout.y[index]!;
    if (y > view.y + view.height || y + layout.h[index]! < view.y) return;
    const height = Math.min(layout.h[index]!, tree.type[node] === NodeType.OPERATOR ? 12 : 28);
    const middle = scene.isOpen(node) ? y + HEADER_HEIGHT / 2 : y + layout.h[index]! / 2;
    const left = layout.x[index]! + layout.w[index]!;
    const colour = look.colour(node, "student");
    const strong = node === look.selected || node === look.hovered;
    const alpha = look.isFaint(node) ? 0.06 : strong ? 0.45 : 0.16;
    const band = { x: left, y: middle - height / 2, width: layout.x[index]! + shift - left, height };
    pen.rect(band, { fill: colour.line, alpha });
    if (!colour.glyph || tree.type[node] === NodeType.OPERATOR) return;
    pen.text(colour.glyph, layout.width + GUTTER / 2, middle, {
      style: "title",
      fill: colour.ink,
      align: "center",
      scale: legibleSize("title", scale, GLYPH_TEXT),
      alpha: look.isFaint(node) ? 0.3 : 1,
    });
  });
}

function level(frame: Frame, node: number, x: number, y: number, alpha: number): void {
  const { scene, previous, progress, view } = frame;
  const layout = scene.layout(node);
  if (!layout) return;
  const before = previous && progress < 1 ? previous.layout(node) : undefined;
  const model = scene.level(node);
  const moved = before !== undefined && before !== layout;
  edges(frame, model, layout, x, y, alpha * (moved ? progress ** 3 : 1));
  for (let index = 0; index < model.children.length; index++) {
    let [left, top, width, height] = [layout.x[index]!, layout.y[index]!, layout.w[index]!, layout.h[index]!];
    if (moved) {
      left = mix(before.x[index]!, left, progress);
      top = mix(before.y[index]!, top, progress);
      width = mix(before.w[index]!, width, progress);
      height = mix(before.h[index]!, height, progress);
    }
    left += x;
    top += y;
    const isAside = left > view.x + view.width || left + width < view.x;
    if (isAside || top > view.y + view.height || top + height < view.y) continue;
    child(frame, model.children[index]!, { x: left, y: top, width, height }, alpha);
  }
  if (node === 0) pills(frame, model, layout, x, y);
}

function child(frame: Frame, node: number, box: Rect, alpha: number): void {
  const { pen, scene, look, side, scale, previous, progress } = frame;
  const { palette } = look;
  const faint = look.isFaint(node) ? alpha * 0.28 : alpha;
  const open = scene.isOpen(node) && box.height * scale > SMALLEST_LEVEL;
  const appearing = previous !== null && progress < 1 && !previous.isOpen(node);
  if (side !== null && !scene.tree.hasSide(node, side)) {
    gap(frame, box, faint);
    const inside = scene.tree.ungrouped(node, side);
    if (inside && open) level(frame, node, box.x, box.y, appearing ? alpha * progress : alpha);
    else if (inside) inGap(frame, box, namesOf(scene.tree, inside, side), faint);
    return;
  }
  if (side !== null && scene.tree.isEcho(node, side) && !scene.isOpen(node)) {
    gap(frame, box, faint);
    inGap(frame, box, `as above: ${textOf(frame, node).title}`, faint);
    return;
  }
  const colour = look.colour(node, side ?? (scene.tree.hasSide(node, "teacher") ? "teacher" : "student"));
  if (open) {
    container(frame, box, colour, faint);
    level(frame, node, box.x, box.y, appearing ? alpha * progress : alpha);
    header(frame, node, box, colour, faint);
  } else card(frame, node, box, colour, faint);

  if (node === look.selected || node === look.marked) {
    pen.rect(grown(box, 3), {
      stroke: node === look.selected ? palette.selection : palette.focus,
      lineWidth: Math.max(2, 1.6 / scale),
      dash: node === look.selected ? [] : [6, 3],
      radius: 8,
    });
  } else if (node === look.hovered) {
    pen.rect(grown(box, 2), { stroke: palette.borderStrong, lineWidth: 1.5, radius: 7 });
  }
  if (look.canPair && (node === look.hovered || node === look.selected) && isPairable(frame, node))
    grip(frame, gripOn(box, side === "student", scene.isOpen(node)));
  if (look.isMatch(node)) {
    pen.rect(grown(box, 1), { stroke: palette.focus, lineWidth: Math.max(2.5, 2 / scale), radius: 6 });
  }
}

/** A line within a dashed frame. */
function inGap(frame: Frame, box: Rect, text: string, alpha: number): void {
  if (frame.scale <= 0.4) return;
  const line = { x: box.x + 8, y: box.y + box.height / 2, room: box.width - 12, alpha };
  write(frame, { ...line, text, style: "body", fill: frame.look.palette.textFaint });
}

/** "0 … 6": what stands side by side where the other model has a group. */
function namesOf(tree: DiffTree, { first, last }: { first: number; last: number }, side: SideName): string {
  const from = nodeName(tree, first, side);
  return first === last ? from : `${from} … ${nodeName(tree, last, side)}`;
}

function grown({ x, y, width, height }: Rect, by: number): Rect {
  return { x: x - by, y: y - by, width: width + 2 * by, height: height + 2 * by };
}

/** The box around a circle. */
function around({ x, y }: { x: number; y: number }, radius: number): Rect {
  return grown({ x, y, width: 0, height: 0 }, radius);
}

function isPairable({ scene, side }: Frame, node: number): boolean {
  const { tree } = scene;
  return tree.type[node] === NodeType.CALL && (side === null || tree.hasSide(node, side));
}

function grip({ pen, look, scale }: Frame, at: { x: number; y: number }): void {
  const radius = Math.max(4, 4.5 / scale);
  pen.rect(around(at, radius), {
    fill: look.palette.page,
    stroke: look.palette.focus,
    lineWidth: Math.max(1.5, 1.5 / scale),
    radius,
  });
}

/** The line that is being drawn from a module to the one that it shall be paired with. */
export function paintPairing(
  pen: Pen,
  { palette }: Look,
  from: { x: number; y: number },
  to: { x: number; y: number },
  target: Rect | null,
  scale: number,
): void {
  if (target) {
    pen.rect(grown(target, 3), { stroke: palette.focus, lineWidth: Math.max(2.5, 2 / scale), radius: 8 });
  }
  pen.paths([[from.x, from.y, to.x, to.y]], {
    stroke: palette.focus,
    lineWidth: Math.max(2, 2 / scale),
    dash: target ? [] : [6 / scale, 4 / scale],
  });
  const radius = Math.max(4, 4.5 / scale);
  pen.rect(around(to, radius), { fill: palette.focus, radius });
}

/** Inputs and outputs of the whole model. */
function pills(frame: Frame, model: Level, layout: LevelLayout, x: number, y: number): void {
  const { pen, scene, look, side, scale } = frame;
  const first = model.children.length;
  [...model.inPorts, ...model.outPorts].forEach((port, index) => {
    const isOutput = index >= model.inPorts.length;
    const at = first + index;
    const name =
      side === null
        ? pillText(scene.tree, port, "teacher", isOutput) || pillText(scene.tree, port, "student", isOutput)
        : pillText(scene.tree, port, side, isOutput);
    if (!name) return;
    const box = { x: x + layout.x[at]!, y: y + layout.y[at]!, width: layout.w[at]!, height: layout.h[at]! };
    pen.rect(box, { fill: look.palette.panel, stroke: look.palette.borderStrong, radius: 4 });
    if (scale < 0.35) return;
    write(frame, {
      text: name,
      style: "body",
      x: box.x + box.width / 2,
      y: box.y + box.height / 2,
      room: box.width - 8,
      fill: look.palette.text,
      size: legibleSize("body", scale),
      align: "center",
    });
  });
}

function mix(a: number, b: number, t: number): number {
  return a + (b - a) * t;
}
