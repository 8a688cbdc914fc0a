/** An array in numpy's order: row-major float32. */
export interface NpyArray {
  readonly values: ArrayLike<number>;
  readonly shape: readonly number[];
}

/** A float32 array in numpy's .npy format 1.0 (numpy.lib.format). */
export function npyBytes({ values, shape }: NpyArray): Uint8Array {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const description = `{'descr': '<f4', 'fortran_order': False, 'shape': ${tuple}, }`;
  // Magic, version and length take 10 bytes; the whole header is padded to a multiple of 64 and ends in a newline.
  const length = Math.ceil((10 + description.length + 1) / 64) * 64 - 10;
  const bytes = new Uint8Array(10 + length + 4 * values.length).fill(0x20, 0, 10 + length);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, length & 0xff, length >> 8]);
  bytes.set(new TextEncoder().encode(description), 10);
  bytes[10 + length - 1] = 0x0a;
  bytes.set(new Uint8Array(Float32Array.from(values).buffer), 10 + length);
  return bytes;
}

/** Arrays by name as numpy.savez writes them: a ZIP archive without compression. */
export function npz(arrays: Readonly<Record<string, NpyArray>>): Blob {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const [name, array] of Object.entries(arrays)) {
    const data = npyBytes(array);
    const file = new TextEncoder().encode(`${name}.npy`);
    const common = new Uint8Array(26);
    const fields = new DataView(common.buffer);
    fields.setUint16(0, 20, true); // version that is needed to read
    fields.setUint16(2, 0x0800, true); // names are UTF-8
    fields.setUint16(8, 0x0021, true); // the first of January 1980, the earliest date of the format
    fields.setUint32(10, crc32(data), true);
    fields.setUint32(14, data.length, true);
    fields.setUint32(18, data.length, true);
    fields.setUint16(22, file.length, true);
    parts.push(word(0x04034b50), common, file, data);
    const rest = new Uint8Array(14);
    new DataView(rest.buffer).setUint32(10, offset, true);
    directory.push(word(0x02014b50), new Uint8Array([20, 0]), common, rest, file);
    offset += 4 + common.length + file.length + data.length;
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  const end = new Uint8Array(18);
  const fields = new DataView(end.buffer);
  const count = Object.keys(arrays).length;
  fields.setUint16(4, count, true);
  fields.setUint16(6, count, true);
  fields.setUint32(8, size, true);
  fields.setUint32(12, offset, true);
  return new Blob([...parts, ...directory, word(0x06054b50), end] as BlobPart[], {
    type: "application/octet-stream",
  });
}

function word(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

/** CRC-32 of ZIP (ISO 3309). */
export function crc32(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) value = (value >>> 8) ^ (CRC_TABLE[(value ^ byte) & 0xff] ?? 0);
  return (value ^ 0xffffffff) >>> 0;
}
