import { cardText } from "../../graph/card";
import { type DiffTree, NodeType, type SideName } from "../../graph/diff_tree";
import { hitEdge } from "../../graph/edge_hit";
import type { Scene } from "../../graph/scene";
import { exactNumber, shapeText, shortBytes } from "../../ui/format";
import { kindStyle } from "../../ui/kinds";

const LETTER = { teacher: "T", student: "S" } as const;

/** What a node is, in a few lines for a hint. */
export function nodeHint(tree: DiffTree, node: number): string {
  const lines: string[] = [];
  const { glyph, name } = kindStyle(tree.kindOf(node));
  for (const side of ["teacher", "student"] as const) {
    const line = sideLine(tree, node, side);
    if (line) lines.push(tree.sides.student ? `${LETTER[side]}  ${line}` : line);
  }
  if (glyph) lines.push(`${glyph} ${name}`);
  return lines.join("\n");
}

function sideLine(tree: DiffTree, node: number, side: SideName): string {
  const model = tree.side(side);
  const row = tree[side][node]!;
  if (!model || row < 0) return "";
  const isOperator = tree.type[node] === NodeType.OPERATOR;
  const { title, subtitle } = cardText(tree, node, side);
  const output = tree.type[node] === NodeType.FOLD ? -1 : model.mainOutput(row, isOperator);
  const shape = output < 0 ? "" : ` → ${model.dtype(output)} ${shapeText(model.shape(output))}`;
  const parameters = isOperator || tree.type[node] === NodeType.FOLD ? 0 : model.callParameters(row);
  return `${title}${subtitle && `  ${subtitle}`}${shape}${parameters ? `  ${exactNumber(parameters)} parameters` : ""}`;
}

/** What flows along the edge near a point of the drawing; "" when there is none. */
export function edgeHint(scene: Scene, { x, y, reach }: { x: number; y: number; reach: number }): string {
  const { tree } = scene;
  const hit = hitEdge(scene, x, y, reach);
  if (!hit) return "";
  const { edge, side } = hit;
  const lines: string[] = [];
  for (const own of ["teacher", "student"] as const) {
    const model = tree.side(own);
    const tensor = own === "teacher" ? edge.teacherTensor : edge.studentTensor;
    if (!model || tensor < 0 || (side !== "both" && side !== own)) continue;
    const bytes = model.tables.tensors.number("bytes")[tensor]!;
    const made = model.producers[tensor]!;
    const maker =
      made < 0 ? model.tables.tensors.text("name", tensor) || model.origin(tensor) : model.operatorName(made);
    const letter = tree.sides.student ? `${LETTER[own]}  ` : "";
    lines.push(
      `${letter}${model.dtype(tensor)} ${shapeText(model.shape(tensor))}  ${shortBytes(bytes)}  from ${maker}`,
    );
  }
  if (edge.count > 1) lines.push(`and ${edge.count - 1} more ${edge.count === 2 ? "value" : "values"}`);
  return lines.join("\n");
}
