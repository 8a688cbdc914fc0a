import type { Palette } from "../ui/tokens";
import type { Rect } from "./camera";
import { cardText, edgeLabel, HEADER_HEIGHT, mergedEdgeLabel, mergedText } from "./card";
import type { NodeColour } from "./colouring";
import { type DiffTree, NodeType, type SideName } from "./diff_tree";
import { edgeRoute, edgeSides } from "./edge_route";
import type { KindCounts } from "./kind_counts";
import type { Level } from "./level";
import type { LevelLayout } from "./level_layout";
import type { Pen } from "./pen";
import { pillText } from "./port_name";
import { GUTTER, HEADING, type Scene } from "./scene";
import { fitText, type TextStyle, textWidth } from "./text_width";

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
  /** Draw edges as wide as what flows is large. */
  weighEdges: boolean;
}

interface Frame {
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

/** An opened node with less height on the screen than this is drawn closed. */
const SMALLEST_LEVEL = 26;
const SMALLEST_TEXT = 9.5;

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

function heading({ pen, scene, look, side, scale }: Frame, x: number): void {
  const { teacher, student } = scene.tree.sides;
  const of = (model: typeof teacher) => `${model.name}  ${model.callClass(0)}`;
  const text =
    side === null && student
      ? `T ${of(teacher)}   ↔   S ${of(student)}`
      : student
        ? side === "teacher"
          ? `T  ${of(teacher)}`
          : `S  ${of(student)}`
        : of(teacher);
  const width = scene.layout(0)?.width ?? 0;
  const size = Math.max(1, 10 / 13 / scale);
  if (size > 3) return;
  const shown = fitText(text, "title", Math.max(width, 120) / size);
  pen.text(shown, x + width / 2, -HEADING / 2, {
    style: "title",
    fill: look.palette.text,
    align: "center",
    scale: size,
  });
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
    pen.rect(left, middle - height / 2, layout.x[index]! + shift - left, height, {
      fill: colour.line,
      alpha,
    });
    if (!colour.glyph || tree.type[node] === NodeType.OPERATOR) return;
    pen.text(colour.glyph, layout.width + GUTTER / 2, middle, {
      style: "title",
      fill: colour.ink,
      align: "center",
      scale: Math.max(1, 11 / 13 / scale),
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
    if (
      left > view.x + view.width ||
      top > view.y + view.height ||
      left + width < view.x ||
      top + height < view.y
    ) {
      continue;
    }
    child(frame, model.children[index]!, left, top, width, height, alpha);
  }
  if (node === 0) pills(frame, model, layout, x, y);
}

function child(
  frame: Frame,
  node: number,
  x: number,
  y: number,
  width: number,
  height: number,
  alpha: number,
): void {
  const { pen, scene, look, side, scale, previous, progress } = frame;
  const { palette } = look;
  const faint = look.isFaint(node) ? alpha * 0.28 : alpha;
  if (side !== null && !scene.tree.hasSide(node, side)) {
    gap(frame, x, y, width, height, faint);
    return;
  }
  if (side !== null && scene.tree.isEcho(node, side) && !scene.isOpen(node)) {
    gap(frame, x, y, width, height, faint);
    const { title } = textOf(frame, node);
    if (scale > 0.4) {
      write(
        frame,
        `as above: ${title}`,
        "body",
        x + 8,
        y + height / 2,
        width - 12,
        1,
        palette.textFaint,
        faint,
      );
    }
    return;
  }
  const open = scene.isOpen(node) && height * scale > SMALLEST_LEVEL;
  const colour = look.colour(node, side ?? (scene.tree.hasSide(node, "teacher") ? "teacher" : "student"));
  if (open) {
    const appearing = previous !== null && progress < 1 && !previous.isOpen(node);
    container(frame, x, y, width, height, colour, faint);
    level(frame, node, x, y, appearing ? alpha * progress : alpha);
    header(frame, node, x, y, width, colour, faint);
  } else card(frame, node, x, y, width, height, colour, faint);

  if (node === look.selected || node === look.marked) {
    pen.rect(x - 3, y - 3, width + 6, height + 6, {
      stroke: node === look.selected ? palette.selection : palette.focus,
      lineWidth: Math.max(2, 1.6 / scale),
      dash: node === look.selected ? [] : [6, 3],
      radius: 8,
    });
  } else if (node === look.hovered) {
    pen.rect(x - 2, y - 2, width + 4, height + 4, {
      stroke: palette.borderStrong,
      lineWidth: 1.5,
      radius: 7,
    });
  }
  if (look.isMatch(node)) {
    pen.rect(x - 1, y - 1, width + 2, height + 2, {
      stroke: palette.focus,
      lineWidth: Math.max(2.5, 2 / scale),
      radius: 6,
    });
  }
}

/** The dotted place of something that a side does not have. */
function gap(
  { pen, look, scale }: Frame,
  x: number,
  y: number,
  width: number,
  height: number,
  alpha: number,
): void {
  if (height * scale < 6) return;
  pen.rect(x, y, width, height, {
    stroke: look.palette.borderStrong,
    lineWidth: Math.max(1, 0.9 / scale),
    dash: [2, 3],
    radius: 6,
    alpha,
  });
}

function container(
  { pen, look }: Frame,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: NodeColour,
  alpha: number,
): void {
  pen.rect(x, y, width, height, {
    fill: look.palette.page,
    stroke: colour.line,
    lineWidth: 1.25,
    radius: 6,
    dash: colour.doubtful ? [5, 3] : [],
    alpha,
  });
  pen.rect(x, y, width, Math.min(HEADER_HEIGHT - 2, height), {
    fill: colour.fill,
    radius: 6,
    alpha: alpha * 0.85,
  });
}

/** The name of an opened node, written after what is in it, so that no line crosses it. */
function header(
  frame: Frame,
  node: number,
  x: number,
  y: number,
  width: number,
  colour: NodeColour,
  alpha: number,
): void {
  const { pen, look, scale } = frame;
  if (13 * scale < 4.5) return;
  const { title, subtitle } = textOf(frame, node);
  const middle = y + HEADER_HEIGHT / 2 - 1;
  const size = Math.max(1, SMALLEST_TEXT / 13 / scale);
  const start = x + 10 + 12 * size;
  pen.text("▾", x + 8, middle, { style: "body", fill: colour.ink, scale: size, alpha });
  const used = write(
    frame,
    title,
    "title",
    start,
    middle,
    width - (start - x) - 8,
    size,
    colour.ink,
    alpha,
    colour.fill,
  );
  const rest = width - (start - x) - used - 18;
  if (scale < 0.6 || rest < 30) return;
  write(
    frame,
    subtitle,
    "body",
    start + used + 8,
    middle,
    rest,
    1,
    look.palette.textSoft,
    alpha,
    colour.fill,
  );
}

function card(
  frame: Frame,
  node: number,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: NodeColour,
  alpha: number,
): void {
  const { pen, scene, look, scale } = frame;
  const { tree } = scene;
  const isOperator = tree.type[node] === NodeType.OPERATOR;
  const radius = isOperator ? height / 2 : 6;
  if (height * scale < 5) {
    pen.rect(x, y, width, height, { fill: colour.line, alpha: alpha * 0.55 });
    return;
  }
  if (tree.type[node] === NodeType.FOLD && !scene.isOpen(node)) {
    for (const shift of [6, 3]) {
      pen.rect(x + shift, y + shift, width, height, {
        fill: look.palette.page,
        stroke: colour.line,
        radius,
        alpha: alpha * 0.6,
      });
    }
  }
  pen.rect(x, y, width, height, { fill: look.palette.page, radius, alpha });
  pen.rect(x, y, width, height, {
    fill: colour.fill,
    stroke: colour.line,
    lineWidth: 1.25,
    radius,
    dash: colour.doubtful ? [5, 3] : [],
    alpha,
  });
  if (!isOperator && height * scale > 14) composition(frame, node, x, y, width, height, alpha);
  if (13 * scale < 4.5) return;
  const { title, subtitle } = textOf(frame, node);
  const size = Math.max(1, SMALLEST_TEXT / 13 / scale);
  const both = subtitle !== "" && scale > 0.6;
  const middle = both ? y + height * 0.34 : y + height / 2;
  const glyphRoom = colour.glyph ? 14 * size : 0;
  if (colour.glyph) {
    pen.text(colour.glyph, x + 10, middle, { style: "title", fill: colour.ink, scale: size, alpha });
  }
  const chevron = tree.isExpandable(node) ? 12 : 0;
  const start = x + 10 + glyphRoom;
  const room = width - 18 - glyphRoom - chevron;
  write(frame, title, isOperator ? "body" : "title", start, middle, room, size, look.palette.text, alpha);
  if (both)
    write(frame, subtitle, "body", start, y + height * 0.7, room + chevron, 1, look.palette.textSoft, alpha);
  if (chevron && scale > 0.4) {
    pen.text("▸", x + width - 8, middle, {
      style: "body",
      fill: look.palette.textSoft,
      align: "right",
      alpha,
    });
  }
}

/** A bar at the foot of a closed module: which kinds are inside, in which shares. */
function composition(
  frame: Frame,
  node: number,
  x: number,
  y: number,
  width: number,
  height: number,
  alpha: number,
): void {
  const { pen, look } = frame;
  const shares = look.counts.shares(node);
  if (shares.length < 2) return;
  let at = x + 7;
  const room = width - 14;
  for (const { kind, share } of shares) {
    pen.rect(at, y + height - 5, room * share, 3, { fill: look.palette.tones[kind.tone].line, alpha });
    at += room * share;
  }
}

function edges(frame: Frame, model: Level, layout: LevelLayout, x: number, y: number, alpha: number): void {
  const { pen, scene, look, side, scale, view } = frame;
  if (scale < 0.1 || alpha < 0.03) return;
  const { palette } = look;
  const { tree } = scene;
  for (let index = 0; index < model.edges.length; index++) {
    const edge = model.edges[index]!;
    const shown = edgeSides(edge, side);
    if (!shown) continue;
    const route = edgeRoute(scene, model, layout, index, x, y);
    if (outside(route, view)) continue;
    const from = model.children[edge.from] ?? -1;
    const to = model.children[edge.to] ?? -1;
    const isSkip = layout.isSkip[index] === 1;
    const touches = (node: number) => node >= 0 && (node === look.selected || node === look.hovered);
    const strong = touches(from) || touches(to);
    const faint = (from >= 0 && look.isFaint(from)) || (to >= 0 && look.isFaint(to));
    const only = side === null ? shown : "both";
    const tone =
      only === "teacher" && tree.sides.student
        ? palette.tones.vermillion.line
        : only === "student"
          ? palette.tones.green.line
          : null;
    const colour = strong ? palette.focus : (tone ?? (isSkip ? palette.textSoft : palette.textFaint));
    const weight = look.weighEdges ? edgeWeight(tree, edge, side) : isSkip ? 1.8 : 1.1;
    pen.path(route, {
      stroke: colour,
      lineWidth: Math.max(strong ? weight + 0.8 : weight, 0.6 / scale),
      alpha: faint ? alpha * 0.2 : alpha * (isSkip || strong ? 1 : 0.85),
      dash: tone && !strong ? [5, 3] : [],
      arrow: scale > 0.35 && edge.to < model.children.length,
    });
    if (isSkip && scale > 0.35) {
      const [cx, cy] = [route[0]!, route[1]!];
      pen.rect(cx - 2.5, cy - 2.5, 5, 5, { fill: colour, radius: 2.5, alpha: faint ? alpha * 0.2 : alpha });
    }
    if (scale < 0.5 || faint) continue;
    const text =
      side === null
        ? mergedEdgeLabel(tree, edge)
        : edgeLabel(
            tree.side(side),
            side === "teacher" ? edge.teacherTensor : edge.studentTensor,
            edge.count,
          );
    if (layout.labelX[index] !== undefined && model.edges.length <= 600) {
      pen.text(text, x + layout.labelX[index]!, y + layout.labelY[index]!, {
        style: "mono",
        fill: strong ? palette.text : palette.textSoft,
        align: "center",
        backing: palette.page,
        alpha,
      });
    }
  }
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
    const [left, top] = [x + layout.x[at]!, y + layout.y[at]!];
    pen.rect(left, top, layout.w[at]!, layout.h[at]!, {
      fill: look.palette.panel,
      stroke: look.palette.borderStrong,
      radius: 4,
    });
    if (scale < 0.35) return;
    const size = Math.max(1, SMALLEST_TEXT / 12 / scale);
    pen.text(
      fitText(name, "body", (layout.w[at]! - 8) / size),
      left + layout.w[at]! / 2,
      top + layout.h[at]! / 2,
      {
        style: "body",
        fill: look.palette.text,
        align: "center",
        scale: size,
      },
    );
  });
}

function textOf({ scene, side }: Frame, node: number) {
  return side === null ? mergedText(scene.tree, node) : cardText(scene.tree, node, side);
}

function edgeWeight(
  tree: DiffTree,
  edge: { teacherTensor: number; studentTensor: number },
  side: SideName | null,
): number {
  const own = side === "student" || edge.teacherTensor < 0 ? "student" : "teacher";
  const tensor = own === "student" ? edge.studentTensor : edge.teacherTensor;
  const bytes = tree.side(own)?.tables.tensors.number("bytes")[tensor] ?? 0;
  return 0.8 + Math.max(0, Math.log10(bytes + 1) - 2) * 0.75;
}

/** Smallest height of letters on the screen before a text is cut instead. */
const SMALLEST_WHOLE_TEXT = 7.5;

/** Writes a text smaller, and in the end cut, when it does not fit; returns the width it took. */
function write(
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

function outside(points: ArrayLike<number>, view: Rect): boolean {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < points.length; at += 2) {
    left = Math.min(left, points[at]!);
    right = Math.max(right, points[at]!);
    top = Math.min(top, points[at + 1]!);
    bottom = Math.max(bottom, points[at + 1]!);
  }
  return left > view.x + view.width || right < view.x || top > view.y + view.height || bottom < view.y;
}

function mix(a: number, b: number, t: number): number {
  return a + (b - a) * t;
}
