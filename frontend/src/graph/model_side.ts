import type { Values } from "../wire/columns";
import type { StructureTables } from "../wire/structure";

/** Values of `tensors.origin`, in the format's order. */
export const ORIGINS = ["kernel", "input", "parameter", "buffer", "constant", "external"] as const;

/** One recorded model with the questions that the graph asks of it. Everything is computed once, when asked. */
export class ModelSide {
  readonly callCount: number;
  readonly operatorCount: number;
  readonly callParent: Values;
  readonly callModule: Values;
  readonly operatorCall: Values;
  readonly operatorBegin: Values;
  readonly operatorEnd: Values;

  /** What tells the side from the other one in words: its name, or where it stands when both have one name. */
  label: string;

  private readonly parameterCounts = new Map<number, number>();
  private cachedProducers: Int32Array | null = null;
  private cachedReaders: { offsets: Uint32Array; operators: Uint32Array } | null = null;
  private cachedSizes: Float64Array | null = null;
  private usual: string | null = null;
  private cachedUntied: Float64Array | null | undefined;
  private cachedModuleChildren: number[][] | null = null;
  private readonly sums = new Map<string, { known: Float64Array; unknown: Uint32Array }>();

  constructor(readonly tables: StructureTables) {
    const { calls, operators } = tables;
    this.label = tables.header.model;
    this.callCount = calls.rows;
    this.operatorCount = operators.rows;
    this.callParent = calls.number("parent");
    this.callModule = calls.number("module");
    this.operatorBegin = calls.number("operator_begin");
    this.operatorEnd = calls.number("operator_end");
    this.operatorCall = operators.number("call");
  }

  get name(): string {
    return this.tables.header.model;
  }

  callPath(call: number): string {
    return this.tables.modules.text("path", this.callModule[call]!);
  }

  callClass(call: number): string {
    return this.tables.modules.text("class_name", this.callModule[call]!);
  }

  operatorName(operator: number): string {
    return this.tables.operators.text("name", operator);
  }

  /** For each tensor, the operator that made it; -1 for inputs, parameters and constants. */
  get producers(): Int32Array {
    if (this.cachedProducers) return this.cachedProducers;
    const begin = this.tables.operators.number("kernel_begin");
    const end = this.tables.operators.number("kernel_end");
    const kernels = new Int32Array(maximum(end)).fill(-1);
    for (let operator = 0; operator < this.operatorCount; operator++) {
      kernels.fill(operator, begin[operator], end[operator]);
    }
    const producer = this.tables.tensors.number("producer");
    const producers = new Int32Array(producer.length);
    for (let tensor = 0; tensor < producer.length; tensor++) {
      const kernel = producer[tensor]!;
      producers[tensor] = kernel < 0 ? -1 : (kernels[kernel] ?? -1);
    }
    this.cachedProducers = producers;
    return producers;
  }

  /** For each tensor t, the operators that read it: `operators[offsets[t]] … operators[offsets[t + 1] - 1]`. */
  get readers(): { offsets: Uint32Array; operators: Uint32Array } {
    if (this.cachedReaders) return this.cachedReaders;
    const inputs = this.tables.operators.list("inputs");
    const offsets = new Uint32Array(this.tables.tensors.rows + 1);
    for (const tensor of inputs.values) offsets[tensor + 1]!++;
    for (let tensor = 0; tensor < this.tables.tensors.rows; tensor++)
      offsets[tensor + 1]! += offsets[tensor]!;
    const next = offsets.slice();
    const operators = new Uint32Array(inputs.values.length);
    for (let operator = 0; operator < this.operatorCount; operator++) {
      for (let at = inputs.offsets[operator]!; at < inputs.offsets[operator + 1]!; at++) {
        operators[next[inputs.values[at]!]!++] = operator;
      }
    }
    this.cachedReaders = { offsets, operators };
    return this.cachedReaders;
  }

  operatorInputs(operator: number): Values {
    return this.tables.operators.row("inputs", operator);
  }

  operatorOutputs(operator: number): Values {
    return this.tables.operators.row("outputs", operator);
  }

  origin(tensor: number): (typeof ORIGINS)[number] {
    return ORIGINS[this.tables.tensors.number("origin")[tensor]!] ?? "constant";
  }

  shape(tensor: number): Values {
    return this.tables.tensors.row("shape", tensor);
  }

  dtype(tensor: number): string {
    return this.tables.tensors.text("dtype", tensor);
  }

  /** What most tensors are; "" without any. Labels say only what differs from it. */
  get usualDtype(): string {
    this.usual ??= this.findUsualDtype();
    return this.usual;
  }

  private findUsualDtype(): string {
    const { tensors } = this.tables;
    const counts = new Map<number, number>();
    let [usual, most] = [-1, 0];
    tensors.number("dtype").forEach((text, tensor) => {
      const count = (counts.get(text) ?? 0) + 1;
      counts.set(text, count);
      if (count > most) [usual, most] = [tensor, count];
    });
    return usual < 0 ? "" : this.dtype(usual);
  }

  device(tensor: number): string {
    return this.tables.tensors.text("device", tensor);
  }

  /** The tensor that stands for a call's or operator's result in one line; -1 when it returned none. */
  mainOutput(row: number, isOperator: boolean): number {
    const table = isOperator ? this.tables.operators : this.tables.calls;
    return table.row("outputs", row)[0] ?? -1;
  }

  /** Elements of the parameters at or below the called module, tied ones once, buffers excluded. */
  callParameters(call: number): number {
    return this.moduleParameters(this.callModule[call]!);
  }

  moduleParameters(module: number): number {
    if (this.untiedCounts) return this.untiedCounts[module]!;
    const known = this.parameterCounts.get(module);
    if (known !== undefined) return known;
    const { modules } = this.tables;
    const sizes = this.parameterSizes;
    const seen = new Set<number>();
    const open = [module];
    let count = 0;
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      for (const parameter of modules.row("parameters", next)) {
        if (seen.has(parameter)) continue;
        seen.add(parameter);
        count += sizes[parameter]!;
      }
      open.push(...this.moduleChildren[next]!);
    }
    this.parameterCounts.set(module, count);
    return count;
  }

  /** Elements of each parameter; 0 for buffers. */
  private get parameterSizes(): Float64Array {
    if (!this.cachedSizes) {
      const { parameters } = this.tables;
      const isBuffer = parameters.number("is_buffer");
      const { values, offsets } = parameters.list("shape");
      this.cachedSizes = new Float64Array(parameters.rows);
      for (let row = 0; row < parameters.rows; row++) {
        let elements = isBuffer[row] ? 0 : 1;
        for (let at = offsets[row]!; at < offsets[row + 1]!; at++) elements *= values[at]!;
        this.cachedSizes[row] = elements;
      }
    }
    return this.cachedSizes;
  }

  /** Counts below each module by plain addition; null when tied parameters forbid that. */
  private get untiedCounts(): Float64Array | null {
    if (this.cachedUntied !== undefined) return this.cachedUntied;
    const { modules, parameters } = this.tables;
    const { values, offsets } = modules.list("parameters");
    const isUsed = new Uint8Array(parameters.rows);
    let hasTies = false;
    for (const parameter of values) {
      hasTies ||= isUsed[parameter] === 1;
      isUsed[parameter] = 1;
    }
    if (hasTies) {
      this.cachedUntied = null;
      return null;
    }
    const sizes = this.parameterSizes;
    const parent = modules.number("parent");
    const counts = new Float64Array(modules.rows);
    // Children have larger numbers than what holds them.
    for (let module = modules.rows - 1; module >= 0; module--) {
      for (let at = offsets[module]!; at < offsets[module + 1]!; at++) counts[module]! += sizes[values[at]!]!;
      if (parent[module]! >= 0) counts[parent[module]!]! += counts[module]!;
    }
    this.cachedUntied = counts;
    return counts;
  }

  get moduleChildren(): number[][] {
    if (!this.cachedModuleChildren) {
      const parent = this.tables.modules.number("parent");
      const children: number[][] = Array.from(parent, () => []);
      parent.forEach((container: number, module: number) => {
        if (container >= 0) children[container]!.push(module);
      });
      this.cachedModuleChildren = children;
    }
    return this.cachedModuleChildren;
  }

  /** Sum of an operator column within a call, its children included; NaN when no operator of it is known. */
  callSum(column: "macs" | "activation_bytes", call: number): number {
    return this.rangeSum(column, this.operatorBegin[call]!, this.operatorEnd[call]!);
  }

  private rangeSum(column: string, begin: number, end: number): number {
    let sums = this.sums.get(column);
    if (!sums) {
      const values = this.tables.operators.number(column);
      sums = { known: new Float64Array(values.length + 1), unknown: new Uint32Array(values.length + 1) };
      for (let row = 0; row < values.length; row++) {
        const value = values[row]!;
        sums.known[row + 1] = sums.known[row]! + (Number.isNaN(value) ? 0 : value);
        sums.unknown[row + 1] = sums.unknown[row]! + (Number.isNaN(value) ? 1 : 0);
      }
      this.sums.set(column, sums);
    }
    if (begin === end) return 0;
    if (sums.unknown[end]! - sums.unknown[begin]! === end - begin) return Number.NaN;
    return sums.known[end]! - sums.known[begin]!;
  }

  operatorValue(column: "macs" | "activation_bytes", operator: number): number {
    return this.tables.operators.number(column)[operator]!;
  }

  /** Constructor-like attributes of a called module. */
  callAttributes(call: number): Map<string, string> {
    const module = this.callModule[call]!;
    return pairsOf(
      this.tables.modules.texts("attribute_names", module),
      this.tables.modules.texts("attribute_values", module),
    );
  }

  operatorAttributes(operator: number): Map<string, string> {
    return pairsOf(
      this.tables.operators.texts("attribute_names", operator),
      this.tables.operators.texts("attribute_values", operator),
    );
  }
}

function pairsOf(names: string[], values: string[]): Map<string, string> {
  return new Map(names.map((name, index) => [name, values[index] ?? ""]));
}

function maximum(values: Values): number {
  let largest = 0;
  for (const value of values) if (value > largest) largest = value;
  return largest;
}

/** Labels two sides apart: models of one name by their variant, run or step. */
export function labelApart(teacher: ModelSide, student: ModelSide): void {
  if (teacher.name !== student.name) return;
  const [t, s] = [teacher.tables, student.tables];
  const places: [string, string][] = [
    [t.header.variant, s.header.variant],
    [t.address.run, s.address.run],
    [`step ${t.address.step}`, `step ${s.address.step}`],
  ];
  const differing = places.filter(([a, b]) => a !== b);
  teacher.label = [teacher.name, ...differing.map(([a]) => a || "–")].join(" · ");
  student.label = [student.name, ...differing.map(([, b]) => b || "–")].join(" · ");
}
