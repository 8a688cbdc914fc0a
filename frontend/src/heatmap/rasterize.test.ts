import { describe, expect, it } from "vitest";
import { byteValues, decodePlane, difference, extent, planeValue } from "./overview_plane";
import { cellEdges, createPixels, poolBytes, rasterize, rasterizeBytes } from "./rasterize";

// Entry i is i + 100, so that transparent (0) can be told from the first entry.
const colors = Uint32Array.from({ length: 256 }, (_, index) => index + 100);
const asIndex = (value: number) => (Number.isNaN(value) ? -1 : Math.abs(value));

describe("rasterize", () => {
  it("enlarges cells to equal blocks", () => {
    const pixels = createPixels(4, 2);
    const matrix = { values: [1, 2], rows: 1, columns: 2 };
    rasterize(
      pixels,
      { x: 0, y: 0, width: 4, height: 2 },
      matrix,
      { x: 0, y: 0, width: 2, height: 1 },
      asIndex,
      colors,
    );
    expect([...pixels.data]).toEqual([101, 101, 102, 102, 101, 101, 102, 102]);
  });

  it("keeps a single peak when thousands of cells share a pixel", () => {
    const values = new Float32Array(4096);
    values[1234] = 9;
    const pixels = createPixels(1, 1);
    const all = { x: 0, y: 0, width: 64, height: 64 };
    rasterize(
      pixels,
      { x: 0, y: 0, width: 1, height: 1 },
      { values, rows: 64, columns: 64 },
      all,
      asIndex,
      colors,
    );
    expect(pixels.data[0]).toBe(109);
  });

  it("keeps the extreme of either sign", () => {
    const pixels = createPixels(1, 1);
    const matrix = { values: [-3, 2], rows: 1, columns: 2 };
    rasterize(
      pixels,
      { x: 0, y: 0, width: 1, height: 1 },
      matrix,
      { x: 0, y: 0, width: 2, height: 1 },
      asIndex,
      colors,
    );
    expect(pixels.data[0]).toBe(103);
  });

  it("draws into its box only and leaves NaN transparent", () => {
    const pixels = createPixels(3, 1);
    const matrix = { values: [Number.NaN, 5], rows: 1, columns: 2 };
    rasterize(
      pixels,
      { x: 1, y: 0, width: 2, height: 1 },
      matrix,
      { x: 0, y: 0, width: 2, height: 1 },
      asIndex,
      colors,
    );
    expect([...pixels.data]).toEqual([0, 0, 105]);
  });

  it("draws a window of the matrix", () => {
    const pixels = createPixels(2, 1);
    const matrix = { values: [1, 2, 3, 4], rows: 1, columns: 4 };
    rasterize(
      pixels,
      { x: 0, y: 0, width: 2, height: 1 },
      matrix,
      { x: 2, y: 0, width: 2, height: 1 },
      asIndex,
      colors,
    );
    expect([...pixels.data]).toEqual([103, 104]);
  });
});

describe("cell edges", () => {
  it("covers every cell once when shrinking evenly", () => {
    expect([...cellEdges(0, 6, 3, 6)]).toEqual([0, 2, 2, 4, 4, 6]);
  });
});

describe("an overview plane", () => {
  const plane = { bytes: Uint8Array.from([0, 51, 102, 255]), rows: 2, columns: 2, scale: 0.5 };

  it("decodes bytes by the square law", () => {
    expect(planeValue(plane, 1)).toBeCloseTo(0.02, 6);
    expect(planeValue(plane, 2)).toBeCloseTo(0.08, 6);
    expect(planeValue(plane, 3)).toBe(0.5);
    expect(byteValues(0.5)[255]).toBe(0.5);
  });

  it("is subtracted cell by cell, across sizes", () => {
    const small = { values: [0.25], rows: 1, columns: 1 };
    const result = difference(decodePlane(plane), small);
    expect(result.values[0]).toBeCloseTo(-0.25, 6);
    expect(result.values[3]).toBeCloseTo(0.25, 6);
    expect(extent(result)).toBeCloseTo(0.25, 6);
  });
});

describe("poolBytes", () => {
  it("a pixel takes the largest of the cells that fall onto it, also those it shares", () => {
    const values = Uint8Array.from([1, 2, 3, 4, 9, 6, 7, 8, 5]);
    // Three cells on two pixels: the middle row and column belong to both.
    expect(poolBytes({ values, rows: 3, columns: 3 }, 2)).toEqual({
      values: Uint8Array.from([9, 9, 9, 9]),
      rows: 2,
      columns: 2,
    });
    const corner = Uint8Array.from([255, 0, 0, 0, 0, 0, 0, 0, 7]);
    expect([...poolBytes({ values: corner, rows: 3, columns: 3 }, 2).values]).toEqual([255, 0, 0, 7]);
  });

  it("a matrix that fits is left alone", () => {
    const matrix = { values: Uint8Array.from([1, 2]), rows: 1, columns: 2 };
    expect(poolBytes(matrix, 2)).toBe(matrix);
  });

  it("drawn bytes have the picture that single values have", () => {
    const values = Uint8Array.from({ length: 49 }, (_, cell) => (cell * 37) % 256);
    const matrix = { values, rows: 7, columns: 7 };
    const colors = Uint32Array.from({ length: 256 }, (_, byte) => byte);
    const window = { x: 0, y: 0, width: 7, height: 7 };
    for (const side of [3, 5, 7, 16]) {
      const box = { x: 1, y: 2, width: side, height: side };
      const [one, other] = [createPixels(20, 20), createPixels(20, 20)];
      rasterizeBytes(one, box, matrix, colors);
      rasterize(other, box, matrix, window, (value) => value, colors);
      expect(one.data).toEqual(other.data);
    }
  });
});
