import { create } from "@bufbuild/protobuf";
import { AlignmentSchema } from "../gen/tb_plugin_structure/v1/alignment_pb";
import { StringPoolSchema, TableSchema, ValueType } from "../gen/tb_plugin_structure/v1/columns_pb";
import { StructureHeaderSchema } from "../gen/tb_plugin_structure/v1/structure_pb";
import { Columns } from "../wire/columns";
import type { DecodedAlignment } from "../wire/comparison";
import { Strings } from "../wire/strings";
import type { StructureTables } from "../wire/structure";
import { ModelSide } from "./model_side";

/** Tests only: small models written by hand, encoded as a record is. */

type Row = Record<string, unknown>;

const STRING_COLUMNS = new Set([
  "path",
  "class_name",
  "name",
  "dtype",
  "device",
  "source",
  "input_names",
  "output_names",
  "attribute_names",
  "attribute_values",
  "evidence",
]);
const DOUBLE_COLUMNS = new Set(["macs", "activation_bytes", "duration_ns", "bytes", "confidence"]);

export class Pool {
  private readonly index = new Map([["", 0]]);

  intern(text: string): number {
    if (!this.index.has(text)) this.index.set(text, this.index.size);
    return this.index.get(text)!;
  }

  strings(): Strings {
    const encoded = [...this.index.keys()].map((text) => new TextEncoder().encode(text));
    const offsets = new Uint32Array(encoded.length + 1);
    encoded.forEach((bytes, at) => {
      offsets[at + 1] = offsets[at]! + bytes.length;
    });
    const utf8 = new Uint8Array(offsets.at(-1)!);
    encoded.forEach((bytes, at) => {
      utf8.set(bytes, offsets[at]);
    });
    return new Strings(create(StringPoolSchema, { utf8, offsets: new Uint8Array(offsets.buffer) }));
  }
}

/** A table from rows of objects; arrays become list columns. All rows have the same keys. */
export function tableOf(name: string, rows: Row[], columns: string[], pool: Pool) {
  return create(TableSchema, {
    name,
    rows: BigInt(rows.length),
    columns: columns.map((column) => {
      const isList = rows.some((row) => Array.isArray(row[column]));
      const isString = STRING_COLUMNS.has(column);
      const flat = rows.flatMap((row) => row[column] as number[] | number);
      const numbers = flat.map((value) => (isString ? pool.intern(String(value ?? "")) : Number(value ?? 0)));
      const offsets = new Uint32Array(rows.length + 1);
      rows.forEach((row, at) => {
        offsets[at + 1] = offsets[at]! + (isList ? (row[column] as unknown[]).length : 1);
      });
      const values = DOUBLE_COLUMNS.has(column) ? new Float64Array(numbers) : new Int32Array(numbers);
      return {
        name: column,
        type: DOUBLE_COLUMNS.has(column) ? ValueType.F64 : isString ? ValueType.STRING : ValueType.I32,
        values: new Uint8Array(values.buffer),
        offsets: isList ? new Uint8Array(offsets.buffer) : new Uint8Array(),
      };
    }),
  });
}

export interface TinyCall {
  path: string;
  type: string;
  /** Row of the parent call; -1 for the model. */
  parent: number;
  operators: [begin: number, end: number];
  inputs?: number[];
  outputs?: number[];
  attributes?: Record<string, string>;
}

export interface TinyOperator {
  name: string;
  call: number;
  inputs: number[];
  output: number;
  attributes?: Record<string, string>;
}

/**
 * Tensors are numbered; `shapes[t]` is the shape of tensor t, which is an input unless an operator makes it or
 * `parameters` names it.
 */
export function tinyModel(
  name: string,
  calls: TinyCall[],
  operators: TinyOperator[],
  shapes: number[][],
  parameters: Record<number, string> = {},
): ModelSide {
  const pool = new Pool();
  const paths = [...new Set(calls.map(({ path }) => path))];
  const moduleParent = (path: string) => {
    const above = paths.filter((other) => other !== path && (other === "" || path.startsWith(`${other}.`)));
    return above.length ? paths.indexOf(above.sort((a, b) => b.length - a.length)[0]!) : -1;
  };
  const madeBy = new Map(operators.map(({ output }, row) => [output, row]));
  const tables = {
    modules: tableOf(
      "modules",
      paths.map((path) => {
        const call = calls.find((other) => other.path === path)!;
        return {
          path,
          class_name: call.type,
          parent: moduleParent(path),
          parameters: [],
          attribute_names: Object.keys(call.attributes ?? {}),
          attribute_values: Object.values(call.attributes ?? {}),
          training: 0,
          calls: calls.filter((other) => other.path === path).length,
        };
      }),
      [
        "path",
        "class_name",
        "parent",
        "parameters",
        "attribute_names",
        "attribute_values",
        "training",
        "calls",
      ],
      pool,
    ),
    parameters: tableOf("parameters", [], ["shape", "is_buffer", "requires_grad"], pool),
    calls: tableOf(
      "module_calls",
      calls.map((call, row) => ({
        module: paths.indexOf(call.path),
        parent: call.parent,
        raised: 0,
        ordinal: calls
          .slice(0, row)
          .filter(({ path, parent }) => path === call.path && parent === call.parent).length,
        operator_begin: call.operators[0],
        operator_end: call.operators[1],
        inputs: call.inputs ?? [],
        input_names: (call.inputs ?? []).map(String),
        outputs: call.outputs ?? [],
        output_names: (call.outputs ?? []).map(() => ""),
        duration_ns: Number.NaN,
      })),
      [
        "module",
        "parent",
        "raised",
        "ordinal",
        "operator_begin",
        "operator_end",
        "inputs",
        "input_names",
        "outputs",
        "output_names",
        "duration_ns",
      ],
      pool,
    ),
    operators: tableOf(
      "operators",
      operators.map((operator, row) => ({
        ...operator,
        kernel_begin: row,
        kernel_end: row + 1,
        outputs: [operator.output],
        attribute_names: Object.keys(operator.attributes ?? {}),
        attribute_values: Object.values(operator.attributes ?? {}),
        macs: 1,
        activation_bytes: 4,
      })),
      [
        "name",
        "call",
        "kernel_begin",
        "kernel_end",
        "inputs",
        "outputs",
        "attribute_names",
        "attribute_values",
        "macs",
        "activation_bytes",
      ],
      pool,
    ),
    tensors: tableOf(
      "tensors",
      shapes.map((shape, tensor) => ({
        shape,
        dtype: "float32",
        device: "cpu",
        producer: madeBy.get(tensor) ?? -1,
        origin: madeBy.has(tensor) ? 0 : tensor in parameters ? 2 : 1,
        name: parameters[tensor] ?? "",
        bytes: 4,
      })),
      ["shape", "dtype", "device", "producer", "origin", "name", "bytes"],
      pool,
    ),
  };
  const strings = pool.strings();
  const structure: StructureTables = {
    address: { run: "", tag: "", step: 0, hash: name },
    header: create(StructureHeaderSchema, { model: name }),
    modules: new Columns(tables.modules, strings),
    parameters: new Columns(tables.parameters, strings),
    calls: new Columns(tables.calls, strings),
    operators: new Columns(tables.operators, strings),
    tensors: new Columns(tables.tensors, strings),
    strings,
  };
  return new ModelSide(structure);
}

/** input → stem → block (conv, drop, + residual) → head; `drop` runs no operator. */
export function residualModel(name = "net", width = 8): ModelSide {
  return tinyModel(
    name,
    [
      { path: "", type: "Net", parent: -1, operators: [0, 4], inputs: [0], outputs: [4] },
      { path: "stem", type: "Conv2d", parent: 0, operators: [0, 1], inputs: [0], outputs: [1] },
      { path: "block", type: "Block", parent: 0, operators: [1, 3], inputs: [1], outputs: [3] },
      {
        path: "block.conv",
        type: "Conv2d",
        parent: 2,
        operators: [1, 2],
        inputs: [1],
        outputs: [2],
        attributes: { stride: "(2, 2)" },
      },
      { path: "block.drop", type: "Dropout", parent: 2, operators: [2, 2], inputs: [2], outputs: [2] },
      { path: "head", type: "Linear", parent: 0, operators: [3, 4], inputs: [3], outputs: [4] },
    ],
    [
      { name: "conv2d", call: 1, inputs: [0], output: 1 },
      { name: "conv2d", call: 3, inputs: [1], output: 2 },
      { name: "+", call: 2, inputs: [2, 1], output: 3 },
      { name: "linear", call: 5, inputs: [3], output: 4 },
    ],
    [
      [1, 3, 16, 16],
      [1, width, 16, 16],
      [1, width, 16, 16],
      [1, width, 16, 16],
      [1, 10],
    ],
  );
}

/** A model whose `layers` holds `count` equal blocks of two operators. */
export function stackedModel(count: number, name = "stack"): ModelSide {
  const blocks = Array.from({ length: count }, (_, index) => index);
  return tinyModel(
    name,
    [
      { path: "", type: "Stack", parent: -1, operators: [0, 2 * count], inputs: [0], outputs: [2 * count] },
      ...blocks.map((index) => ({
        path: `layers.${index}`,
        type: "Layer",
        parent: 0,
        operators: [2 * index, 2 * index + 2] as [number, number],
        inputs: [2 * index],
        outputs: [2 * index + 2],
      })),
    ],
    blocks.flatMap((index) => [
      { name: "linear", call: index + 1, inputs: [2 * index], output: 2 * index + 1 },
      { name: "relu", call: index + 1, inputs: [2 * index + 1], output: 2 * index + 2 },
    ]),
    Array.from({ length: 2 * count + 1 }, () => [4, 8]),
  );
}

/** An alignment from [teacher call, student call, parent row, kind] and [teacher op, student op, pair, kind]. */
export function tinyAlignment(pairs: number[][], operators: number[][], stack = -1): DecodedAlignment {
  const pool = new Pool();
  const pairTable = tableOf(
    "pairs",
    pairs.map(([teacher, student, parent, kind]) => ({
      teacher,
      student,
      parent,
      kind,
      confidence: 1,
      evidence: ["same name"],
      stack: parent === 0 ? stack : -1,
      alternatives: [],
    })),
    ["teacher", "student", "parent", "kind", "confidence", "evidence", "stack", "alternatives"],
    pool,
  );
  const operatorTable = tableOf(
    "operator_pairs",
    operators.map(([teacher, student, pair, kind]) => ({ teacher, student, pair, kind, confidence: 1 })),
    ["teacher", "student", "pair", "kind", "confidence"],
    pool,
  );
  const strings = pool.strings();
  return {
    message: create(AlignmentSchema),
    pairs: new Columns(pairTable, strings),
    operatorPairs: new Columns(operatorTable, strings),
  };
}
