import { PairKind } from "../../gen/tb_plugin_structure/v1/alignment_pb";
import { trainable } from "../../graph/colouring";
import { type DiffTree, NodeType, type SideName } from "../../graph/diff_tree";
import type { ModelSide } from "../../graph/model_side";
import { shapeText } from "../../ui/format";
import { spreadText } from "./spread_text";

/** One line that compares the sides; a side is null when it has no such thing. */
export interface FactLine {
  name: string;
  teacher: string | null;
  student: string | null;
  differs: boolean;
}

/** A quantity of both sides; NaN where unknown, null where the side has none. */
export interface Quantity {
  name: string;
  unit: "count" | "bytes" | "ns" | "plain";
  teacher: number | null;
  student: number | null;
}

/** Attributes of the modules or operators, the differing ones first. */
export function attributeLines(tree: DiffTree, node: number): FactLine[] {
  const of = (side: SideName) => {
    const model = tree.side(side);
    const row = tree[side][node]!;
    if (!model || row < 0) return null;
    return tree.type[node] === NodeType.OPERATOR ? model.operatorAttributes(row) : model.callAttributes(row);
  };
  // Another class has other attributes; only those that both have can differ.
  return compareMaps(of("teacher"), of("student"), tree.kindOf(node) === PairKind.RETYPED);
}

/** Lines for two maps of names to values; with `onlyShared` a name that one side lacks is no difference. */
export function compareMaps(
  teacher: ReadonlyMap<string, string> | null,
  student: ReadonlyMap<string, string> | null,
  onlyShared = false,
): FactLine[] {
  const names = new Set([...(teacher?.keys() ?? []), ...(student?.keys() ?? [])]);
  const lines = [...names].map((name) => {
    const [t, s] = [teacher?.get(name) ?? null, student?.get(name) ?? null];
    const comparable = onlyShared ? t !== null && s !== null : teacher !== null && student !== null;
    return { name, teacher: t, student: s, differs: comparable && t !== s };
  });
  return lines.sort((a, b) => Number(b.differs) - Number(a.differs));
}

/** Shapes and dtypes of what goes in and comes out. */
export function tensorLines(tree: DiffTree, node: number, column: "inputs" | "outputs"): FactLine[] {
  const of = (side: SideName) => {
    const model = tree.side(side);
    const row = tree[side][node]!;
    return model && row >= 0 ? namedTensors(model, row, tree.type[node] === NodeType.OPERATOR, column) : null;
  };
  const [t, s] = [of("teacher"), of("student")];
  const lines: FactLine[] = [];
  for (let index = 0; index < Math.max(t?.length ?? 0, s?.length ?? 0); index++) {
    const [a, b] = [t?.[index] ?? null, s?.[index] ?? null];
    lines.push({
      name: a?.name || b?.name || String(index),
      teacher: a?.text ?? null,
      student: b?.text ?? null,
      differs: a !== null && b !== null && a.text !== b.text,
    });
  }
  return lines;
}

function namedTensors(
  model: ModelSide,
  row: number,
  isOperator: boolean,
  column: "inputs" | "outputs",
): { name: string; text: string }[] {
  const table = isOperator ? model.tables.operators : model.tables.calls;
  const names = isOperator ? [] : table.texts(column === "inputs" ? "input_names" : "output_names", row);
  const tensorNames = model.tables.tensors;
  return Array.from(table.row(column, row), (tensor, index) => ({
    name: names[index] || (isOperator ? tensorNames.text("name", tensor).split(".").at(-1)! : ""),
    text: `${shapeText(model.shape(tensor))}${symbolicText(model, tensor)} ${model.dtype(tensor)}${spreadText(tensorNames, tensor)}`,
  }));
}

/** " = B×8×((H+1)//2)" where the record has an expression for each dimension and one of them is no plain number. */
function symbolicText(model: ModelSide, tensor: number): string {
  const { tensors } = model.tables;
  const sizes = tensors.has("symbolic") ? tensors.texts("symbolic", tensor) : [];
  return sizes.some((size) => !/^\d+$/.test(size))
    ? ` = ${sizes.map((size) => (/^\w+$/.test(size) ? size : `(${size})`)).join("×")}`
    : "";
}

export function quantities(tree: DiffTree, node: number): Quantity[] {
  const of = (get: (model: ModelSide, row: number) => number) => {
    const side = (name: SideName) => {
      const model = tree.side(name);
      const row = tree[name][node]!;
      return model && row >= 0 ? get(model, row) : null;
    };
    return { teacher: side("teacher"), student: side("student") };
  };
  /** A column that is there only when it was asked for. */
  const optional = (table: "calls" | "operators", column: string) => (model: ModelSide, row: number) =>
    model.tables[table].has(column) ? model.tables[table].number(column)[row]! : Number.NaN;
  if (tree.type[node] === NodeType.OPERATOR) {
    return recorded([
      { name: "MACs", unit: "count", ...of((model, row) => model.operatorValue("macs", row)) },
      {
        name: "activation",
        unit: "bytes",
        ...of((model, row) => model.operatorValue("activation_bytes", row)),
      },
      { name: "time", unit: "ns", ...of(optional("operators", "duration_ns")) },
      { name: "saved for backward", unit: "bytes", ...of(optional("operators", "saved_bytes")) },
    ]);
  }
  const list: Quantity[] = [
    { name: "parameters", unit: "count", ...of((model, row) => model.callParameters(row)) },
    { name: "MACs", unit: "count", ...of((model, row) => model.callSum("macs", row)) },
    { name: "activation", unit: "bytes", ...of((model, row) => model.callSum("activation_bytes", row)) },
    { name: "time", unit: "ns", ...of((model, row) => model.tables.calls.number("duration_ns")[row]!) },
    { name: "peak memory", unit: "bytes", ...of(optional("calls", "peak_bytes")) },
  ];
  return recorded(list);
}

const OPTIONAL = new Set(["time", "peak memory", "saved for backward"]);

/** Not every pass is timed, counted or followed by a backward pass: what neither side has is left out. */
function recorded(list: Quantity[]): Quantity[] {
  return list.filter(
    ({ name, teacher, student }) => !OPTIONAL.has(name) || !(isUnknown(teacher) && isUnknown(student)),
  );
}

function isUnknown(value: number | null): boolean {
  return value === null || Number.isNaN(value);
}

/** Flags of a module call, in words. */
export function flagLines(tree: DiffTree, node: number): FactLine[] {
  if (tree.type[node] === NodeType.OPERATOR) return [];
  const of = (get: (model: ModelSide, row: number) => string): Omit<FactLine, "name"> => {
    const side = (name: SideName) => {
      const model = tree.side(name);
      const row = tree[name][node]!;
      return model && row >= 0 ? get(model, row) : null;
    };
    const [teacher, student] = [side("teacher"), side("student")];
    return { teacher, student, differs: teacher !== null && student !== null && teacher !== student };
  };
  const flag = (column: string) => (model: ModelSide, row: number) =>
    model.tables.calls.number(column)[row] ? "yes" : "no";
  return [
    {
      name: "mode",
      ...of((model, row) =>
        model.tables.modules.number("training")[model.callModule[row]!] ? "training" : "evaluation",
      ),
    },
    { name: "parameters are", ...of((model, row) => trainable(model, row) || "–") },
    {
      name: "calls of the module",
      ...of((model, row) => String(model.tables.modules.number("calls")[model.callModule[row]!])),
    },
    { name: "raised", ...of(flag("raised")) },
    { name: "output changed after return", ...of(flag("modified_after_return")) },
  ].filter(({ name, teacher, student }) => {
    if (name === "calls of the module") return teacher !== "1" || (student !== null && student !== "1");
    return (
      !["raised", "output changed after return"].includes(name) || teacher === "yes" || student === "yes"
    );
  });
}
