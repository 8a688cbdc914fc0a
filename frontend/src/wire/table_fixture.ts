import { create } from "@bufbuild/protobuf";
import {
  type StringPool,
  StringPoolSchema,
  type Table,
  TableSchema,
  ValueType,
} from "../gen/tb_plugin_structure/v1/columns_pb";

/** Encodes tables as the backend does. For tests: what they read went through the same bytes as a real answer. */
export class TableFixture {
  private readonly texts = [""];

  /** A table of the columns given. Texts become string columns, other numbers doubles; a nested array is a list column. */
  table(name: string, columns: Record<string, readonly (Cell | readonly Cell[])[]>): Table {
    const rows = Object.values(columns)[0]?.length ?? 0;
    return create(TableSchema, {
      name,
      rows: BigInt(rows),
      columns: Object.entries(columns).map(([column, cells]) => {
        const isList = cells.some(Array.isArray);
        const flat = cells.flat() as Cell[];
        const isText = flat.some((cell) => typeof cell === "string");
        const values = isText
          ? new Uint32Array(flat.map((cell) => this.intern(String(cell))))
          : new Float64Array(flat as number[]);
        const offsets = new Uint32Array(cells.length + 1);
        cells.forEach((cell, row) => {
          offsets[row + 1] = offsets[row]! + (cell as Cell[]).length;
        });
        return {
          name: column,
          type: isText ? ValueType.STRING : ValueType.F64,
          values: new Uint8Array(values.buffer),
          offsets: isList ? new Uint8Array(offsets.buffer) : new Uint8Array(),
        };
      }),
    });
  }

  pool(): StringPool {
    const encoded = this.texts.map((text) => new TextEncoder().encode(text));
    const offsets = new Uint32Array(encoded.length + 1);
    encoded.forEach((bytes, index) => {
      offsets[index + 1] = offsets[index]! + bytes.length;
    });
    return create(StringPoolSchema, {
      utf8: new Uint8Array(encoded.flatMap((bytes) => [...bytes])),
      offsets: new Uint8Array(offsets.buffer),
    });
  }

  private intern(text: string): number {
    const known = this.texts.indexOf(text);
    if (known >= 0) return known;
    return this.texts.push(text) - 1;
  }
}

type Cell = string | number;
