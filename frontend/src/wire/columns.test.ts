import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { StringPoolSchema, TableSchema, ValueType } from "../gen/tb_plugin_structure/v1/columns_pb";
import { Columns, half } from "./columns";
import { Strings } from "./strings";

const bytes = (array: ArrayBufferView<ArrayBuffer>) =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

const pool = new Strings(
  create(StringPoolSchema, {
    utf8: new TextEncoder().encode("relu"),
    offsets: bytes(new Uint32Array([0, 0, 4])),
  }),
);

/** Through the wire, so that columns lie at odd offsets as they do in a real answer. */
function overTheWire(columns: { name: string; type: ValueType; values: Uint8Array; offsets?: Uint8Array }[]) {
  const table = create(TableSchema, { name: "t", rows: 2n, columns });
  return new Columns(fromBinary(TableSchema, toBinary(TableSchema, table)), pool);
}

describe("Columns", () => {
  it("views plain columns of every type", () => {
    const table = overTheWire([
      { name: "flag", type: ValueType.U8, values: new Uint8Array([1, 0]) },
      { name: "parent", type: ValueType.I32, values: bytes(new Int32Array([-1, 7])) },
      { name: "macs", type: ValueType.F64, values: bytes(new Float64Array([Number.NaN, 2.5])) },
      { name: "bytes", type: ValueType.I64, values: bytes(new BigInt64Array([-3n, 4_089_184_256n])) },
      { name: "half", type: ValueType.F16, values: bytes(new Uint16Array([0x3c00, 0xc000])) },
    ]);
    expect([...table.number("flag")]).toEqual([1, 0]);
    expect([...table.number("parent")]).toEqual([-1, 7]);
    expect([...table.number("macs")]).toEqual([Number.NaN, 2.5]);
    expect([...table.number("bytes")]).toEqual([-3, 4_089_184_256]);
    expect([...table.number("half")]).toEqual([1, -2]);
  });

  it("reads lists and strings by row", () => {
    const table = overTheWire([
      { name: "name", type: ValueType.STRING, values: bytes(new Uint32Array([1, 0])) },
      {
        name: "shape",
        type: ValueType.U32,
        values: bytes(new Uint32Array([2, 3, 4])),
        offsets: bytes(new Uint32Array([0, 0, 3])),
      },
    ]);
    expect(table.text("name", 0)).toBe("relu");
    expect(table.text("name", 1)).toBe("");
    expect([...table.row("shape", 0)]).toEqual([]);
    expect([...table.row("shape", 1)]).toEqual([2, 3, 4]);
  });

  it("names the column that is missing or damaged", () => {
    const table = overTheWire([{ name: "short", type: ValueType.U32, values: bytes(new Uint32Array([1])) }]);
    expect(() => table.number("kind")).toThrow('no column "kind"');
    expect(() => table.number("short")).toThrow("1 values for 2 rows");
  });
});

describe("half", () => {
  it.each([
    [0x0000, 0],
    [0x0001, 2 ** -24],
    [0x3555, 0.333251953125],
    [0x7bff, 65504],
    [0x7c00, Number.POSITIVE_INFINITY],
  ])("decodes %i as %f", (bits, value) => expect(half(bits)).toBe(value));
});
