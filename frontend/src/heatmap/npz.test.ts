import { describe, expect, it } from "vitest";
import { crc32, npyBytes, npz } from "./npz";

describe("files for numpy", () => {
  it("have the header that numpy.lib.format describes", () => {
    const bytes = npyBytes({ values: [1, 2, 3, 4, 5, 6], shape: [2, 3] });
    expect([...bytes.slice(0, 8)]).toEqual([0x93, 78, 85, 77, 80, 89, 1, 0]);
    expect(bytes.length).toBe(128 + 24);
    expect(new TextDecoder().decode(bytes.slice(10, 128))).toMatch(
      /^\{'descr': '<f4', 'fortran_order': False, 'shape': \(2, 3\), \} *\n$/,
    );
    expect([...new Float32Array(bytes.slice(128).buffer)]).toEqual([1, 2, 3, 4, 5, 6]);
  });
  it("know the check value of CRC-32", () => {
    expect(crc32(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
  });
  it("are archives whose directory points at every array", async () => {
    const bytes = new Uint8Array(
      await npz({ a: { values: [1], shape: [1] }, b: { values: [], shape: [0] } }).arrayBuffer(),
    );
    const view = new DataView(bytes.buffer);
    const end = bytes.length - 22;
    expect(view.getUint32(end, true)).toBe(0x06054b50);
    expect(view.getUint16(end + 10, true)).toBe(2);
    const directory = view.getUint32(end + 16, true);
    expect(view.getUint32(directory, true)).toBe(0x02014b50);
    const second = view.getUint32(directory + 46 + 5 + 42, true);
    expect(view.getUint32(second, true)).toBe(0x04034b50);
    expect(new TextDecoder().decode(bytes.slice(second + 30, second + 35))).toBe("b.npy");
  });
});
