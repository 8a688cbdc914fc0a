import type { StructureHeader, Totals } from "../../gen/tb_plugin_structure/v1/structure_pb";
import { exactNumber, ratio, shortBytes, shortNumber } from "../../ui/format";
import type { DecodedAlignment } from "../../wire/comparison";
import type { Comparison } from "./comparison";

/** More of an exception's message is a matter of the audit's finding, which has all of it. */
const LONGEST_MESSAGE = 240;

/** The answer of the tab in one sentence, after what a pass that ended early raised. */
export function sentenceOf({ tree, alignment }: Comparison): string {
  const { teacher, student } = tree.sides;
  const { header } = teacher.tables;
  if (!alignment) {
    const totals = header.totals!;
    return `${header.model} is a ${header.modelClass} with ${exactNumber(Number(totals.modules))} modules and ${exactNumber(Number(totals.operators))} operators: ${sizeOf(totals)}.${failureOf(header, " The forward pass")}`;
  }
  const failed = [
    failureOf(header, "⚠ The teacher's forward pass"),
    student ? failureOf(student.tables.header, "⚠ The student's forward pass") : "",
  ];
  return [...failed, answerOf(alignment)].filter(Boolean).join(" ");
}

function answerOf(alignment: DecodedAlignment): string {
  const { summary, teacherTotals, studentTotals } = alignment.message;
  if (/×/.test(summary) || !teacherTotals || !studentTotals) return unbroken(summary);
  const ratios = [
    [ratio(Number(studentTotals.parameters), Number(teacherTotals.parameters)), "parameters"],
    [ratio(studentTotals.macs, teacherTotals.macs), "MACs"],
    [ratio(Number(studentTotals.activationBytes), Number(teacherTotals.activationBytes)), "activations"],
  ].filter(([value]) => value);
  return unbroken(`${summary} ${ratios.map(([value, name]) => `${value} ${name}`).join(" · ")}`);
}

/** "The forward pass raised RuntimeError in head (model.py:24): …"; empty for a pass that did not raise. */
function failureOf({ error }: StructureHeader, pass: string): string {
  if (!error) return "";
  const place = `${error.modulePath ? ` in ${error.modulePath}` : ""}${error.source ? ` (${error.source})` : ""}`;
  const line = error.message.split("\n", 1)[0]!;
  const message = line.length > LONGEST_MESSAGE ? `${line.slice(0, LONGEST_MESSAGE)}…` : line;
  return `${pass} raised ${error.type}${place}${message ? `: ${message.replace(/[.\s]+$/, "")}.` : "."}`;
}

/** No line ends within a ratio and what it is of. */
function unbroken(text: string): string {
  return text.replace(/(\d) × /g, "$1\u00a0×\u00a0");
}

function sizeOf(totals: Totals): string {
  const parts = [`${shortNumber(Number(totals.parameters))} parameters`];
  if (totals.macs > 0) parts.push(`${shortNumber(totals.macs)} MACs`);
  parts.push(`${shortBytes(Number(totals.activationBytes))} of activations`);
  return parts.join(", ");
}
