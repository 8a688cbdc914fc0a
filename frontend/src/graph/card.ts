import { shapeText } from "../ui/format";
import { type DiffTree, NodeType, type SideName } from "./diff_tree";
import type { ModelSide } from "./model_side";
import { textWidth } from "./text_width";

/** How the two sides are drawn: beside each other, or as one graph. */
export type Arrangement = "side by side" | "merged";

/** What a node says about one side; "⚠" before its name says that its call raised an error. */
export interface CardText {
  title: string;
  /** Class of a module; "" for operators. */
  subtitle: string;
}

export const CARD_HEIGHT = 42;
export const OPERATOR_HEIGHT = 24;
export const HEADER_HEIGHT = 28;
const NARROWEST = 84;
/** Widths are multiples of this, so that blocks whose names differ by a digit share a layout. */
const WIDTH_STEP = 12;
/** Titles are drawn a little larger when the graph is small, and shall still fit. */
const SLACK = 1.12;
const WIDEST = 320;
const GLYPH = 37;

/** The name of a node, without what its parent already says: "attention.self" within "layer.0.attention" is "self". */
export function nodeName(tree: DiffTree, node: number, side: SideName): string {
  const model = tree.side(side);
  const row = tree[side][node]!;
  if (!model || row < 0) return "";
  if (tree.type[node] === NodeType.OPERATOR) return model.operatorName(row);
  if (tree.type[node] === NodeType.FOLD) {
    return localPath(tree, node + 1, side, model, row).replace(/\.?\d+$/, "") || model.callClass(row);
  }
  const ordinal = model.tables.calls.number("ordinal")[row]!;
  const local = localPath(tree, node, side, model, row);
  // A number alone says nothing: "layer1.0", not "0".
  const name = /^\d+$/.test(local) ? (/[^.]*(?:\.\d+)+$/.exec(model.callPath(row))?.[0] ?? local) : local;
  return (name || model.callClass(row)) + (ordinal ? ` (call ${ordinal + 1})` : "");
}

function localPath(tree: DiffTree, node: number, side: SideName, model: ModelSide, call: number): string {
  const path = model.callPath(call);
  for (const ancestor of tree.ancestors(node)) {
    const row = tree[side][ancestor]!;
    if (row < 0 || tree.type[ancestor] !== NodeType.CALL) continue;
    const above = model.callPath(row);
    if (above && path.startsWith(`${above}.`)) return path.slice(above.length + 1);
    if (!above || path !== above) return path;
  }
  return path;
}

/** How many blocks of a side a fold holds; what lies between the blocks is not counted. */
export function foldCount(tree: DiffTree, node: number, side: SideName): number {
  const model = tree.side(side);
  const first = tree[side][node]!;
  if (!model || first < 0) return 0;
  const rows = new Set<number>();
  for (const child of tree.children(node)) {
    const row = tree[side][child]!;
    const isBlock = tree.type[child] === NodeType.CALL && row >= 0;
    if (isBlock && model.callClass(row) === model.callClass(first)) rows.add(row);
  }
  return rows.size;
}

export function cardText(tree: DiffTree, node: number, side: SideName): CardText {
  const model = tree.side(side);
  const row = tree[side][node]!;
  if (!model || row < 0) return { title: "", subtitle: "" };
  const title = nodeName(tree, node, side);
  if (tree.type[node] === NodeType.OPERATOR) return { title, subtitle: "" };
  if (tree.type[node] === NodeType.FOLD) {
    const subtitle = model.callClass(row);
    return {
      title: `${title} ×${foldCount(tree, node, side)}`,
      subtitle: subtitle === title ? "" : subtitle,
    };
  }
  const raised = model.tables.calls.number("raised")[row] ? "⚠ " : "";
  return { title: raised + title, subtitle: model.callClass(row) };
}

/** What a node says in the merged drawing: both sides where they differ. */
export function mergedText(tree: DiffTree, node: number): CardText {
  const t = cardText(tree, node, "teacher");
  const s = cardText(tree, node, "student");
  const join = (a: string, b: string) => (!b || a === b ? a : a ? `${a} ↔ ${b}` : b);
  return { title: join(t.title, s.title), subtitle: join(t.subtitle, s.subtitle) };
}

export function cardSize(
  tree: DiffTree,
  node: number,
  arrangement: Arrangement,
): { width: number; height: number } {
  const texts =
    arrangement === "merged"
      ? [mergedText(tree, node)]
      : [cardText(tree, node, "teacher"), cardText(tree, node, "student")];
  let widest = NARROWEST;
  for (const { title, subtitle } of texts) {
    widest = Math.max(
      widest,
      textWidth(title, "title") * SLACK + GLYPH + 14,
      textWidth(subtitle, "body") + GLYPH + 14,
    );
  }
  const width = Math.min(WIDEST, Math.ceil(widest / WIDTH_STEP) * WIDTH_STEP);
  return { width, height: tree.type[node] === NodeType.OPERATOR ? OPERATOR_HEIGHT : CARD_HEIGHT };
}

/** The label of an edge on one side: the shape of what flows, its dtype when it is not the model's, how many values. */
export function edgeLabel(model: ModelSide | null, tensor: number, count: number): string {
  if (!model || tensor < 0) return "";
  const dtype = model.dtype(tensor);
  const more = count > 1 ? `  +${count - 1}` : "";
  return `${shapeText(model.shape(tensor))}${dtype === model.usualDtype ? "" : ` ${dtype}`}${more}`;
}

export function mergedEdgeLabel(
  tree: DiffTree,
  edge: { teacherTensor: number; studentTensor: number; count: number },
): string {
  const t = edgeLabel(tree.sides.teacher, edge.teacherTensor, edge.count);
  const s = edgeLabel(tree.sides.student, edge.studentTensor, edge.count);
  return !s || s === t ? t : t ? `${t} ↔ ${s}` : s;
}
