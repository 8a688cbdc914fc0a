import { type DimensionRule, type OperatorFacts, traceDimension } from "./dimension_rules";
import type { ModelSide } from "./model_side";

/** One operator that a dimension came through, the latest first. */
export interface DimensionStep {
  operator: number;
  /** Size of the dimension in the operator's result. */
  size: number;
  what: string;
  isCertain: boolean;
}

/** Where a dimension comes from. */
export interface DimensionOrigin {
  /** All operators on the way, the latest first. */
  steps: DimensionStep[];
  /** What it begins with; several where dimensions were merged or joined. */
  ends: DimensionEnd[];
}

export interface DimensionEnd {
  size: number;
  /** "dimension 1 of input input_ids", "dimension 0 of parameter fc.weight"; "" when an operator made it. */
  text: string;
  /** The operator that it begins in, or that read the input; -1 when nothing did. */
  operator: number;
  /** A parameter fixes the size: it is the same for every input. */
  isFixed: boolean;
}

/** Longer ways are cut: nobody reads them, and a page must not wait. */
const MOST_STEPS = 20_000;

/** Follows dimension `position` of `tensor` back through the operators that made it. */
export function dimensionOrigin(model: ModelSide, tensor: number, position: number): DimensionOrigin {
  const steps: DimensionStep[] = [];
  const ends: DimensionEnd[] = [];
  const seen = new Set<string>();
  const open: [tensor: number, position: number, reader: number][] = [[tensor, position, -1]];
  for (let next = open.pop(); next !== undefined && steps.length < MOST_STEPS; next = open.pop()) {
    const [value, dim, reader] = next;
    const key = `${value} ${dim}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const size = model.shape(value)[dim]!;
    const operator = model.producers[value]!;
    if (operator < 0) {
      const isFixed = isWeight(model, value);
      ends.push({ size, text: `dimension ${dim} of ${sourceName(model, value)}`, operator: reader, isFixed });
      continue;
    }
    const inputs = model.operatorInputs(operator);
    const rule = ruleOf(model, operator, value, dim);
    steps.push({ operator, size, what: rule.what, isCertain: rule.isCertain });
    if (!rule.sources.length) ends.push({ size, text: "", operator, isFixed: false });
    for (const source of rule.sources) open.push([inputs[source.input]!, source.position, operator]);
  }
  return { steps: steps.sort((a, b) => b.operator - a.operator), ends };
}

function ruleOf(model: ModelSide, operator: number, tensor: number, position: number): DimensionRule {
  const inputs = Array.from(model.operatorInputs(operator));
  const facts: OperatorFacts = {
    name: model.operatorName(operator),
    attributes: model.operatorAttributes(operator),
    inputs: inputs.map((input) => Array.from(model.shape(input))),
    isWeight: inputs.map((input) => isWeight(model, input)),
    output: Array.from(model.shape(tensor)),
  };
  return traceDimension(facts, position);
}

function isWeight(model: ModelSide, tensor: number): boolean {
  return ["parameter", "buffer"].includes(model.origin(tensor));
}

function sourceName(model: ModelSide, tensor: number): string {
  const origin = model.origin(tensor);
  const { calls, tensors } = model.tables;
  const at = calls.row("inputs", 0).indexOf(tensor);
  const name = (at >= 0 && calls.texts("input_names", 0)[at]) || tensors.text("name", tensor);
  const kind = at >= 0 ? "input" : origin === "external" ? "a value from outside" : origin;
  return name ? `${kind} ${name}` : kind === "constant" ? "a constant" : kind;
}
