import type { StringPool } from "../gen/tb_plugin_structure/v1/columns_pb";

const decoder = new TextDecoder();

/** The string pool of a record. A string is decoded when it is first asked for, and kept. */
export class Strings {
  readonly count: number;
  private readonly utf8: Uint8Array;
  private readonly offsets: Uint32Array;
  private readonly decoded: (string | undefined)[];

  constructor(pool: StringPool | undefined) {
    this.utf8 = pool?.utf8 ?? new Uint8Array();
    this.offsets = uint32(pool?.offsets ?? new Uint8Array());
    this.count = Math.max(0, this.offsets.length - 1);
    this.decoded = new Array(this.count);
  }

  /** String `index`; index 0 is the empty string. */
  at(index: number): string {
    const known = this.decoded[index];
    if (known !== undefined) return known;
    if (index === 0 && this.count === 0) return "";
    if (index < 0 || index >= this.count) {
      throw new Error(`The record is damaged: it names string ${index} of a pool of ${this.count}.`);
    }
    const text = decoder.decode(this.utf8.subarray(this.offsets[index], this.offsets[index + 1]));
    this.decoded[index] = text;
    return text;
  }
}

/** The bytes as little-endian 32-bit numbers; copies only when they are not aligned. */
export function uint32(bytes: Uint8Array): Uint32Array {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >>> 2);
}
