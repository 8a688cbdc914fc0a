import { type Column, type Table, ValueType } from "../gen/tb_plugin_structure/v1/columns_pb";
import { Strings, uint32 } from "./strings";

/** What a column's values are viewed as. 64-bit integers are converted to doubles (exact below 2^53). */
export type Values = Uint8Array | Int32Array | Uint32Array | Float32Array | Float64Array;

/** A list column: row r holds `values[offsets[r]] … values[offsets[r + 1] - 1]`. */
export interface Lists {
  readonly values: Values;
  readonly offsets: Uint32Array;
}

/**
 * A table of a record as typed arrays over the received bytes.
 *
 * - `number("macs")` is a plain column, one value a row
 * - `list("inputs")` is a list column; `row("inputs", 3)` is the list of row 3
 * - `text("name", 3)` and `texts("aliases", 3)` are strings
 */
export class Columns {
  readonly name: string;
  readonly rows: number;
  private readonly stored = new Map<string, Column>();
  private readonly views = new Map<string, Lists>();

  constructor(
    table: Table | undefined,
    private readonly strings: Strings = new Strings(undefined),
  ) {
    this.name = table?.name ?? "";
    this.rows = Number(table?.rows ?? 0);
    for (const column of table?.columns ?? []) this.stored.set(column.name, column);
  }

  has(column: string): boolean {
    return this.stored.has(column);
  }

  /** All values of a column (of a string column: indices into the pool). */
  number(column: string): Values {
    return this.list(column).values;
  }

  list(column: string): Lists {
    const known = this.views.get(column);
    if (known) return known;
    const stored = this.stored.get(column);
    if (!stored) {
      throw new Error(
        `The table "${this.name}" has no column "${column}"; reload the page after an upgrade.`,
      );
    }
    const view = { values: typed(stored), offsets: uint32(stored.offsets) };
    const expected = stored.offsets.length ? view.offsets[this.rows] : this.rows;
    if (view.values.length !== expected) {
      throw new Error(
        `The table "${this.name}" is damaged: column "${column}" has ${view.values.length} values for ${this.rows} rows.`,
      );
    }
    this.views.set(column, view);
    return view;
  }

  row(column: string, row: number): Values {
    const { values, offsets } = this.list(column);
    return values.subarray(offsets[row], offsets[row + 1]);
  }

  text(column: string, row: number): string {
    return this.strings.at(this.number(column)[row] ?? 0);
  }

  texts(column: string, row: number): string[] {
    return Array.from(this.row(column, row), (index) => this.strings.at(index));
  }
}

function typed(column: Column): Values {
  const width = WIDTHS[column.type];
  if (!width)
    throw new Error(`Column "${column.name}" has a type that this page does not know; reload the page.`);
  const bytes = column.values.byteOffset % width === 0 ? column.values : column.values.slice();
  const buffer = bytes.buffer as ArrayBuffer;
  const count = Math.floor(bytes.byteLength / width);
  switch (column.type) {
    case ValueType.U8:
      return bytes;
    case ValueType.I32:
      return new Int32Array(buffer, bytes.byteOffset, count);
    case ValueType.U32:
    case ValueType.STRING:
      return new Uint32Array(buffer, bytes.byteOffset, count);
    case ValueType.F32:
      return new Float32Array(buffer, bytes.byteOffset, count);
    case ValueType.F64:
      return new Float64Array(buffer, bytes.byteOffset, count);
    case ValueType.I64:
      return doubles(new Int32Array(buffer, bytes.byteOffset, 2 * count));
    default:
      return Float32Array.from(new Uint16Array(buffer, bytes.byteOffset, count), half);
  }
}

/** 64-bit integers, given as halves with the lower first; a loop over BigInts takes ten times as long. */
function doubles(halves: Int32Array): Float64Array {
  const values = new Float64Array(halves.length / 2);
  for (let at = 0; at < values.length; at++) {
    values[at] = (halves[2 * at]! >>> 0) + halves[2 * at + 1]! * 2 ** 32;
  }
  return values;
}

const WIDTHS: Partial<Record<ValueType, number>> = {
  [ValueType.U8]: 1,
  [ValueType.F16]: 2,
  [ValueType.I32]: 4,
  [ValueType.U32]: 4,
  [ValueType.STRING]: 4,
  [ValueType.F32]: 4,
  [ValueType.I64]: 8,
  [ValueType.F64]: 8,
};

/** The number that 16 bits stand for in IEEE 754 half precision. */
export function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
