import { columnsThatFit, type TableColumn } from "../../table/columns";
import { exactNumber, shapeText, shortBytes, shortDuration, shortNumber } from "../../ui/format";
import type { StructureTables } from "../../wire/structure";

/** The operators of one model, in execution order. */
export class OperatorRows {
  readonly count: number;
  /** Names of the top-level modules, in order of first use. */
  readonly stages: readonly string[];
  readonly stageOf: Int32Array;
  /** Whether the record holds the time of each operator. */
  readonly hasTimes: boolean;
  /** Whether the record holds what autograd keeps of each operator. */
  readonly hasSaved: boolean;
  private readonly durations: ArrayLike<number>;
  private readonly saved: ArrayLike<number>;
  private readonly stageTotals: { macs: number; bytes: number; duration: number; saved: number }[];

  constructor(readonly structure: StructureTables) {
    const { operators } = structure;
    this.count = operators.rows;
    this.stageOf = new Int32Array(this.count);
    this.durations = operators.has("duration_ns") ? operators.number("duration_ns") : [];
    this.saved = operators.has("saved_bytes") ? operators.number("saved_bytes") : [];
    this.hasTimes = hasNumber(this.durations);
    this.hasSaved = hasNumber(this.saved);
    this.stageTotals = [];
    const numbers = new Map<string, number>();
    const macs = operators.number("macs");
    const bytes = operators.number("activation_bytes");
    for (let row = 0; row < this.count; row++) {
      const path = this.path(row);
      const stage = path.split(".", 1)[0] ?? "";
      const number = numbers.get(stage) ?? numbers.size;
      numbers.set(stage, number);
      this.stageOf[row] = number;
      const totals = this.stageTotals[number] ?? { macs: 0, bytes: 0, duration: 0, saved: 0 };
      // An unknown part leaves the sum of the known ones, as the model's total does.
      totals.macs += Number.isNaN(macs[row]) ? 0 : (macs[row] ?? 0);
      totals.bytes += bytes[row] ?? 0;
      totals.duration += Number.isNaN(this.duration(row)) ? 0 : this.duration(row);
      totals.saved += Number.isNaN(this.savedBytes(row)) ? 0 : this.savedBytes(row);
      this.stageTotals[number] = totals;
    }
    this.stages = [...numbers.keys()].map((stage) => stage || "(model)");
  }

  name(row: number): string {
    const name = this.structure.operators.text("name", row);
    return name === "-" ? "- (minus)" : name; // alone it would read as "none"
  }

  /** Path of the module in whose call the operator ran. */
  path(row: number): string {
    const { operators, calls, modules } = this.structure;
    const call = operators.number("call")[row] ?? 0;
    return modules.text("path", calls.number("module")[call] ?? 0);
  }

  /** Rows of the tensors table; parameters are left out of the inputs, unless there is nothing else. */
  tensors(side: "inputs" | "outputs", row: number): number[] {
    const { operators, tensors } = this.structure;
    const all = Array.from(operators.row(side, row));
    if (side === "outputs") return all;
    const parameter = tensors.number("parameter");
    const values = all.filter((tensor) => (parameter[tensor] ?? -1) < 0);
    return values.length > 0 ? values : all;
  }

  shape(tensor: number): string {
    return shapeText(this.structure.tensors.row("shape", tensor));
  }

  shapes(side: "inputs" | "outputs", row: number): string {
    return this.tensors(side, row)
      .map((tensor) => this.shape(tensor))
      .join(", ");
  }

  /** Values of a tensor column over the outputs, each once. */
  outputValues(column: string, row: number): string {
    const values = this.tensors("outputs", row).map((tensor) => this.structure.tensors.text(column, tensor));
    return [...new Set(values)].join(", ");
  }

  macs(row: number): number {
    return this.structure.operators.number("macs")[row] ?? Number.NaN;
  }

  bytes(row: number): number {
    return this.structure.operators.number("activation_bytes")[row] ?? Number.NaN;
  }

  /** Nanoseconds, the median of warm passes; NaN when not recorded. */
  duration(row: number): number {
    return this.durations[row] ?? Number.NaN;
  }

  /** Bytes that autograd keeps until the backward pass; NaN when not recorded. */
  savedBytes(row: number): number {
    return this.saved[row] ?? Number.NaN;
  }

  stageSaved(stage: number): number {
    return this.stageTotals[stage]?.saved ?? 0;
  }

  stageDuration(stage: number): number {
    return this.stageTotals[stage]?.duration ?? 0;
  }

  source(row: number): string {
    return this.structure.operators.text("source", row);
  }

  attributes(row: number): [name: string, value: string][] {
    const { operators } = this.structure;
    const values = operators.texts("attribute_values", row);
    return operators.texts("attribute_names", row).map((name, index) => [name, values[index] ?? ""]);
  }

  /** Whether an output has a shape that none of the inputs has. */
  changesShape(row: number): boolean {
    const inputs = new Set(this.tensors("inputs", row).map((tensor) => this.shape(tensor)));
    return this.tensors("outputs", row).some((tensor) => !inputs.has(this.shape(tensor)));
  }

  stageMacs(stage: number): number {
    return this.stageTotals[stage]?.macs ?? 0;
  }

  stageBytes(stage: number): number {
    return this.stageTotals[stage]?.bytes ?? 0;
  }

  rowAt(place: string): number {
    if (!/^[TS]:/.test(place)) return -1;
    const path = place.slice(2);
    for (let row = 0; row < this.count; row++) if (this.path(row) === path) return row;
    return -1;
  }
}

export const OPERATOR_COLUMNS: ReadonlySet<string> = new Set([
  "operator",
  "module",
  "inputs",
  "outputs",
  "dtype",
  "device",
  "macs",
  "bytes",
  "source",
]);

/** Of the columns, those shown until someone chooses others. */
export function usualOperatorColumns(rows: OperatorRows | undefined, space: number): ReadonlySet<string> {
  if (rows === undefined) return OPERATOR_COLUMNS;
  const usual = new Set(OPERATOR_COLUMNS);
  if (rows.hasTimes) usual.add("duration_ns");
  if (rows.hasSaved) usual.add("saved_bytes");
  return columnsThatFit(operatorColumns(rows), usual, ["device", "dtype", "bytes", "source"], space);
}

function hasNumber(values: ArrayLike<number>): boolean {
  return Array.prototype.some.call(values, (value: number) => !Number.isNaN(value));
}

export function operatorColumns(rows: OperatorRows): TableColumn[] {
  return [
    { id: "row", label: "#", width: 60, align: "end", text: (row) => String(row), number: (row) => row },
    { id: "operator", label: "operator", width: 130, monospace: true, text: (row) => rows.name(row) },
    {
      id: "module",
      label: "module",
      width: 200,
      grow: 2,
      monospace: true,
      keepsEnd: true,
      text: (row) => rows.path(row) || "(model)",
    },
    {
      id: "inputs",
      label: "input shapes",
      width: 170,
      grow: 1,
      monospace: true,
      text: (row) => rows.shapes("inputs", row),
    },
    {
      id: "outputs",
      label: "output shapes",
      width: 150,
      grow: 1,
      monospace: true,
      text: (row) => rows.shapes("outputs", row),
    },
    { id: "dtype", label: "dtype", width: 84, text: (row) => rows.outputValues("dtype", row) },
    { id: "device", label: "device", width: 76, text: (row) => rows.outputValues("device", row) },
    {
      id: "macs",
      label: "MACs",
      title: "Multiply-accumulates of matrix products and convolutions",
      width: 84,
      align: "end",
      text: (row) => shortNumber(rows.macs(row)),
      number: (row) => rows.macs(row),
      groupText: (stage) => shortNumber(rows.stageMacs(stage)),
      tip: (row) => exactNumber(rows.macs(row)),
    },
    {
      id: "bytes",
      label: "memory",
      title: "New storage made; views and in-place results count 0",
      width: 84,
      align: "end",
      text: (row) => shortBytes(rows.bytes(row)),
      number: (row) => rows.bytes(row),
      groupText: (stage) => shortBytes(rows.stageBytes(stage)),
    },
    {
      id: "saved_bytes",
      label: "kept",
      title: "What autograd keeps until the backward pass; empty where the record does not hold it",
      width: 84,
      align: "end",
      text: (row) => (rows.hasSaved ? shortBytes(rows.savedBytes(row)) : ""),
      number: (row) => rows.savedBytes(row),
      groupText: (stage) => (rows.hasSaved ? shortBytes(rows.stageSaved(stage)) : ""),
    },
    {
      id: "duration_ns",
      label: "time",
      title: "Median of warm passes; empty where the record holds no times",
      width: 76,
      align: "end",
      text: (row) => (rows.hasTimes ? shortDuration(rows.duration(row)) : ""),
      number: (row) => rows.duration(row),
      groupText: (stage) => (rows.hasTimes ? shortDuration(rows.stageDuration(stage)) : ""),
    },
    { id: "source", label: "source", width: 150, grow: 1, monospace: true, text: (row) => rows.source(row) },
    {
      id: "attributes",
      label: "attributes",
      width: 200,
      grow: 1,
      monospace: true,
      text: (row) =>
        rows
          .attributes(row)
          .map(([name, value]) => `${name}=${value}`)
          .join(", "),
    },
  ];
}
