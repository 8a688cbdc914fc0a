/**
 * The types of fields: those of protobuf, and "map" for `map<string, string>`. Enums are "int32".
 *
 * What the tabs read are a few small messages around large columns of bytes: reading them takes a page of code, a
 * complete runtime would be the largest part of what a tab loads.
 */
type FieldType =
  | "string"
  | "bytes"
  | "bool"
  | "int32"
  | "uint32"
  | "sint32"
  | "int64"
  | "uint64"
  | "float"
  | "double"
  | "map"
  | Fields;

interface Fields {
  readonly [number: number]: readonly [name: string, type: FieldType, repeated?: "repeated"];
}

declare const message: unique symbol;

/** The fields of the messages of a type, by their numbers. Generated from the .proto files (`npm run proto`). */
export type FieldsOf<Message> = Fields & { readonly [message]?: Message };

/**
 * Reads a message. Fields that were not written have protobuf's default values; those of an unknown number are
 * passed over, as a newer server may send them. Bytes are views into `bytes`.
 *
 * Raises an Error when the bytes end within a value.
 */
export function readMessage<Message>(fields: FieldsOf<Message>, bytes: Uint8Array): Message {
  return readFields(fields, new Reader(bytes)) as Message;
}

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;

function readFields(fields: Fields, reader: Reader): Record<string, unknown> {
  const read: Record<string, unknown> = {};
  for (const [name, type, repeated] of Object.values(fields)) read[name] = repeated ? [] : emptyValue(type);
  while (!reader.atEnd) {
    const tag = reader.length();
    const [number, wire] = [tag >>> 3, tag & 7];
    const field = fields[number];
    if (!field) {
      reader.skip(wire);
      continue;
    }
    const [name, type, repeated] = field;
    if (type === "map") {
      const { key, value } = readFields(ENTRY, reader.inner());
      (read[name] as Record<string, unknown>)[key as string] = value;
    } else if (!repeated) read[name] = readValue(type, reader);
    else {
      const values = read[name] as unknown[];
      // Numbers that repeat are packed into one value.
      const packed = wire === DELIMITED && typeof type === "string" && type !== "string" && type !== "bytes";
      if (!packed) values.push(readValue(type, reader));
      else for (const inner = reader.inner(); !inner.atEnd; ) values.push(readValue(type, inner));
    }
  }
  return read;
}

const ENTRY: Fields = { 1: ["key", "string"], 2: ["value", "string"] };

function emptyValue(type: FieldType): unknown {
  switch (type) {
    case "string":
      return "";
    case "bytes":
      return new Uint8Array();
    case "bool":
      return false;
    case "int64":
    case "uint64":
      return 0n;
    case "map":
      return {};
    default:
      return typeof type === "string" ? 0 : undefined;
  }
}

const decoder = new TextDecoder();

function readValue(type: FieldType, reader: Reader): unknown {
  switch (type) {
    case "string":
      return decoder.decode(reader.bytes());
    case "bytes":
      return reader.bytes();
    case "bool":
      return reader.varint() !== 0n;
    case "uint64":
      return reader.varint();
    case "int64":
      return BigInt.asIntN(64, reader.varint());
    case "uint32":
      return reader.length();
    case "int32":
      return Number(BigInt.asIntN(32, reader.varint()));
    case "sint32": {
      const zigzag = reader.length();
      return (zigzag >>> 1) ^ -(zigzag & 1);
    }
    case "float":
      return reader.fixed(4).getFloat32(0, true);
    case "double":
      return reader.fixed(8).getFloat64(0, true);
    default:
      return readFields(type as Fields, reader.inner());
  }
}

/** Goes through the bytes of a message. */
class Reader {
  private at = 0;

  constructor(private readonly all: Uint8Array) {}

  get atEnd(): boolean {
    return this.at >= this.all.length;
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.take(1)[0]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  /** A number of 32 bits without sign. */
  length(): number {
    return Number(BigInt.asUintN(32, this.varint()));
  }

  bytes(): Uint8Array {
    return this.take(this.length());
  }

  inner(): Reader {
    return new Reader(this.bytes());
  }

  fixed(size: number): DataView {
    const { buffer, byteOffset } = this.take(size);
    return new DataView(buffer, byteOffset, size);
  }

  skip(wire: number): void {
    if (wire === VARINT) this.varint();
    else if (wire === DELIMITED) this.bytes();
    else if (wire === FIXED64 || wire === FIXED32) this.take(wire === FIXED64 ? 8 : 4);
    else throw new Error(`The answer is damaged: ${wire} is no type of a field.`);
  }

  private take(size: number): Uint8Array {
    const begin = this.at;
    this.at += size;
    if (this.at > this.all.length) throw new Error("The answer is damaged: it ends within a value.");
    return this.all.subarray(begin, this.at);
  }
}
