import type { Totals } from "../../gen/tb_plugin_structure/v1/structure_pb";
import { exactNumber, ratio, shortBytes, shortNumber } from "../../ui/format";
import type { Comparison } from "./comparison";

/** The answer of the tab in one sentence. */
export function sentenceOf({ tree, alignment }: Comparison): string {
  const { teacher } = tree.sides;
  const { header } = teacher.tables;
  if (!alignment) {
    const totals = header.totals!;
    const error = header.error
      ? ` The forward pass raised ${header.error.type}: ${header.error.message}`
      : "";
    return `${header.model} is a ${header.modelClass} with ${exactNumber(Number(totals.modules))} modules and ${exactNumber(Number(totals.operators))} operators: ${sizeOf(totals)}.${error}`;
  }
  const { summary, teacherTotals, studentTotals } = alignment.message;
  if (/×/.test(summary) || !teacherTotals || !studentTotals) return unbroken(summary);
  const ratios = [
    [ratio(Number(studentTotals.parameters), Number(teacherTotals.parameters)), "parameters"],
    [ratio(studentTotals.macs, teacherTotals.macs), "MACs"],
    [ratio(Number(studentTotals.activationBytes), Number(teacherTotals.activationBytes)), "activations"],
  ].filter(([value]) => value);
  return unbroken(`${summary} ${ratios.map(([value, name]) => `${value} ${name}`).join(" · ")}`);
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
