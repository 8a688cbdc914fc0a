import { create, type DescField, type DescMessage, ScalarType, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import * as alignmentFields from "../gen/tb_plugin_structure/v1/alignment_fields";
import { file_tb_plugin_structure_v1_alignment } from "../gen/tb_plugin_structure/v1/alignment_pb";
import * as attentionFields from "../gen/tb_plugin_structure/v1/attention_fields";
import { file_tb_plugin_structure_v1_attention } from "../gen/tb_plugin_structure/v1/attention_pb";
import * as auditFields from "../gen/tb_plugin_structure/v1/audit_fields";
import { file_tb_plugin_structure_v1_audit } from "../gen/tb_plugin_structure/v1/audit_pb";
import * as columnsFields from "../gen/tb_plugin_structure/v1/columns_fields";
import { file_tb_plugin_structure_v1_columns } from "../gen/tb_plugin_structure/v1/columns_pb";
import * as structureFields from "../gen/tb_plugin_structure/v1/structure_fields";
import {
  ArgumentSchema,
  file_tb_plugin_structure_v1_structure,
  TotalsSchema,
} from "../gen/tb_plugin_structure/v1/structure_pb";
import { type FieldsOf, readMessage } from "./message";

const FILES = [
  [file_tb_plugin_structure_v1_alignment, alignmentFields],
  [file_tb_plugin_structure_v1_attention, attentionFields],
  [file_tb_plugin_structure_v1_audit, auditFields],
  [file_tb_plugin_structure_v1_columns, columnsFields],
  [file_tb_plugin_structure_v1_structure, structureFields],
] as const;

const MESSAGES = FILES.flatMap(([file, fields]) =>
  file.messages.map((message): [string, DescMessage, FieldsOf<unknown>] => [
    message.name,
    message,
    (fields as Record<string, FieldsOf<unknown>>)[`${message.name}Fields`]!,
  ]),
);

/** A value that tells signs, sizes and encodings apart. */
function scalar(type: ScalarType): unknown {
  switch (type) {
    case ScalarType.STRING:
      return "θ ↔ 12";
    case ScalarType.BYTES:
      return new Uint8Array([0, 255, 7]);
    case ScalarType.BOOL:
      return true;
    case ScalarType.UINT64:
      return 2n ** 63n + 5n;
    case ScalarType.INT64:
      return -(2n ** 40n);
    case ScalarType.INT32:
    case ScalarType.SINT32:
      return -70_000;
    case ScalarType.UINT32:
      return 2 ** 32 - 1;
    case ScalarType.FLOAT:
      return -0.375;
    default:
      return 1.1e300;
  }
}

function sample(field: DescField): unknown {
  if (field.fieldKind === "map") return { torch: "2.13", "": "ß" };
  const one = field.message ? samples(field.message) : field.enum ? 1 : scalar(field.scalar!);
  return field.fieldKind === "list" ? [one, one] : one;
}

function samples(message: DescMessage): Record<string, unknown> {
  return Object.fromEntries(message.fields.map((field) => [field.localName, sample(field)]));
}

describe("readMessage", () => {
  test.each(MESSAGES)("reads every field of %s as protobuf wrote it", (_, schema, fields) => {
    const values = samples(schema);
    expect(readMessage(fields, toBinary(schema, create(schema, values)))).toEqual(values);
  });

  test.each(MESSAGES)("gives the fields of an empty %s protobuf's default values", (_, schema, fields) => {
    const { $typeName, ...values } = create(schema) as unknown as Record<string, unknown>;
    expect(readMessage(fields, new Uint8Array())).toEqual(values);
  });

  test("passes over fields of a number that it does not know", () => {
    const bytes = toBinary(TotalsSchema, create(TotalsSchema, { modules: 3n, macs: 1.5, peakBytes: 9n }));
    expect(readMessage<object>({ 14: ["peak", "uint64"] }, bytes)).toEqual({ peak: 9n });
  });

  test("says that an answer is damaged when it ends within a value", () => {
    const bytes = toBinary(ArgumentSchema, create(ArgumentSchema, { name: "input_ids" }));
    expect(() => readMessage(structureFields.ArgumentFields, bytes.subarray(0, 5))).toThrow(/damaged/);
  });
});
