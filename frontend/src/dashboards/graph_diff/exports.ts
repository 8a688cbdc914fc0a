import type { Rect } from "../../graph/camera";
import { CanvasPen } from "../../graph/canvas_pen";
import type { Look } from "../../graph/look";
import { paint } from "../../graph/painter";
import { SvgPen } from "../../graph/svg_pen";
import { announce } from "../../ui/announce";
import { download } from "../../ui/download";
import { exactNumber, ratio } from "../../ui/format";
import { KINDS } from "../../ui/kinds";
import { palette } from "../../ui/tokens";
import type { Comparison } from "./comparison";
import type { DiffState } from "./diff_state";
import type { GraphCommands } from "./GraphPane";
import { parsePlan, planText } from "./plan_file";
import { writeReport } from "./report_file";
import { sentenceOf } from "./sentence";

const MARGIN = 24;
/** Browsers refuse larger canvases. */
const LARGEST_SIDE = 8192;

/** The look of an exported picture: as on the screen, without what only the pointer did. */
function lookOf(state: DiffState): Look | null {
  const comparison = state.comparison.value;
  const painting = state.painting.value;
  if (!comparison || !painting) return null;
  const faint = state.faint.value;
  return {
    picture: state.picture.value,
    palette: palette(state.session.dark.value),
    selected: -1,
    marked: -1,
    hovered: -1,
    isFaint: (node) => faint !== null && faint[node] === 1,
    isMatch: (node) => state.matches.value.set.has(node),
    colour: (node, side) => painting.colour(node, side),
    counts: comparison.counts,
    canPair: false,
    weighEdges: state.weighEdges.value,
  };
}

/** The whole graph, or the part that the window shows. */
export function exportSvg(state: DiffState, { scene, view }: GraphCommands, isWhole: boolean): void {
  const look = lookOf(state);
  if (!scene || !look) return;
  const { x, y, width, height } = isWhole || !view ? widened(scene.bounds()) : view.visible();
  const pen = new SvgPen();
  paint(pen, scene, look, { x, y, width, height }, 1);
  const svg = pen.document(x, y, width, height, look.palette.page);
  download(`${fileName(state)}.svg`, svg, "image/svg+xml");
}

function widened({ x, y, width, height }: Rect): Rect {
  return { x: x - MARGIN, y: y - MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN };
}

export async function exportPng(state: DiffState, { scene }: GraphCommands): Promise<void> {
  const look = lookOf(state);
  if (!scene || !look) return;
  const bounds = scene.bounds();
  const [width, height] = [bounds.width + 2 * MARGIN, bounds.height + 2 * MARGIN];
  const scale = Math.min(2, LARGEST_SIDE / width, LARGEST_SIDE / height);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext("2d")!;
  context.fillStyle = look.palette.page;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.setTransform(scale, 0, 0, scale, (MARGIN - bounds.x) * scale, (MARGIN - bounds.y) * scale);
  paint(new CanvasPen(context), scene, look, bounds, scale);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve));
  if (blob) download(`${fileName(state)}.png`, blob);
  else announce("The picture is too large for a PNG; the SVG holds all of it.");
}

export function exportMarkdown(comparison: Comparison): void {
  download(`${titleOf(comparison)}.md`, markdownOf(comparison), "text/markdown;charset=utf-8");
}

export function exportPlan(state: DiffState): void {
  const sides = state.comparison.value?.tree.sides;
  if (!sides?.student) return;
  const models = { teacher: sides.teacher.name, student: sides.student.name };
  download(`${fileName(state)}_plan.json`, planText(models, state.session.intent.value), "application/json");
}

/** One file with the same interactive view, to be opened without a server. */
export async function exportReport(state: DiffState): Promise<void> {
  announce("Writing the report");
  try {
    download(`${fileName(state)}.html`, await writeReport(state.session), "text/html;charset=utf-8");
  } catch (error) {
    state.trouble.value = `The report could not be written: ${(error as Error).message}`;
  }
}

/** Asks for a file and puts its pins and policies in force. */
export function loadPlan(state: DiffState): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".json,application/json";
  input.addEventListener("change", async () => {
    const file = input.files?.[0];
    if (!file) return;
    try {
      state.changeIntent(parsePlan(await file.text()));
    } catch (error) {
      state.trouble.value = `${file.name}: ${(error as Error).message}`;
    }
  });
  input.click();
}

/** The comparison as a document: sentence, totals, kinds, edit script. */
export function markdownOf(comparison: Comparison): string {
  const { alignment } = comparison;
  const lines = [`# ${titleOf(comparison)}`, "", sentenceOf(comparison), ""];
  if (!alignment) return lines.join("\n");
  const { teacherTotals, studentTotals, teacher, student, counts, edits } = alignment.message;
  lines.push(`| | ${cell(teacher)} | ${cell(student)} | student ÷ teacher |`, "| --- | ---: | ---: | ---: |");
  const rows = [
    ["parameters", teacherTotals?.parameters, studentTotals?.parameters],
    ["MACs", teacherTotals?.macs, studentTotals?.macs],
    ["activation bytes", teacherTotals?.activationBytes, studentTotals?.activationBytes],
    ["modules", teacherTotals?.modules, studentTotals?.modules],
    ["operators", teacherTotals?.operators, studentTotals?.operators],
  ] as const;
  for (const [name, t, s] of rows) {
    const [a, b] = [Number(t ?? 0), Number(s ?? 0)];
    lines.push(`| ${name} | ${exactNumber(a)} | ${exactNumber(b)} | ${ratio(b, a)} |`);
  }
  lines.push("", "| kind | leaf modules |", "| --- | ---: |");
  for (const { kind, glyph, name } of KINDS) {
    const leaves = counts.find((count) => count.kind === kind)?.leaves;
    if (leaves) lines.push(`| ${glyph} ${name} | ${leaves} |`);
  }
  if (edits.length) lines.push("", "## What changed", "", ...edits.map(({ text }) => `- ${text}`));
  lines.push("");
  return lines.join("\n");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

function titleOf({ tree }: Comparison): string {
  const { teacher, student } = tree.sides;
  return student ? `${teacher.label} ↔ ${student.label}` : teacher.label;
}

function fileName(state: DiffState): string {
  const comparison = state.comparison.value;
  return comparison ? titleOf(comparison).replace(" ↔ ", "_vs_") : "graph";
}
