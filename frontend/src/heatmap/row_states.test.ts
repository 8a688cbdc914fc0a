import { describe, expect, it } from "vitest";
import { decodePlane, difference, extent } from "./overview_plane";
import { createPixels, poolBytes, rasterize, rasterizeBytes } from "./rasterize";
import { RowState, rowStatesOf, stateOfRows } from "./row_states";

const { probabilities, notRecorded, masked, notFinite } = RowState;

describe("states of rows", () => {
  it("tells NaN, infinity and masked rows from hidden keys", () => {
    const values = [Number.NaN, Number.NaN, 0.5, Number.NaN, 0, 0, 1, Number.POSITIVE_INFINITY];
    expect([...(rowStatesOf({ values, rows: 4, columns: 2 }, true) ?? [])]).toEqual([
      notFinite,
      probabilities,
      masked,
      notFinite,
    ]);
  });

  it("takes zeros in a part of a row for probabilities", () => {
    expect(rowStatesOf({ values: [0, 0], rows: 1, columns: 2 }, false)).toBeUndefined();
  });

  it("never hides NaN beside good rows, but masked rows", () => {
    const states = Uint8Array.of(probabilities, notFinite, masked, notRecorded);
    expect(stateOfRows(states, 0, 2)).toBe(notFinite);
    expect(stateOfRows(Uint8Array.of(probabilities, masked), 0, 2)).toBe(probabilities);
    expect(stateOfRows(states, 2, 4)).toBe(masked);
  });

  it("survives decoding, pooling and differences", () => {
    const rowStates = Uint8Array.of(probabilities, probabilities, notFinite, probabilities);
    const bytes = new Uint8Array(16);
    const plane = { bytes, rows: 4, columns: 4, scale: 1, rowStates };
    const pooled = poolBytes({ values: bytes, rows: 4, columns: 4, rowStates }, 2);
    expect([...(pooled.rowStates ?? [])]).toEqual([probabilities, notFinite]);
    const good = decodePlane({ ...plane, rowStates: undefined });
    expect([...(difference(good, decodePlane(plane)).rowStates ?? [])]).toEqual([...rowStates]);
  });

  it("gives NaN, not 0, for rows without numbers", () => {
    const rowStates = Uint8Array.of(notFinite, masked, notRecorded, probabilities);
    const plane = { bytes: new Uint8Array(4), rows: 4, columns: 1, scale: 1, rowStates };
    expect([...Array.from(decodePlane(plane).values)]).toEqual([Number.NaN, 0, Number.NaN, 0]);
  });

  it("does not let infinity stretch the scale", () => {
    expect(extent({ values: [0.25, Number.POSITIVE_INFINITY, Number.NaN], rows: 1, columns: 3 })).toBe(0.25);
  });
});

describe("drawing them", () => {
  const colors = new Uint32Array(256).fill(0xff112233);
  const box = { x: 0, y: 0, width: 12, height: 2 };
  const matrix = { values: new Uint8Array(2), rows: 2, columns: 1, rowStates: Uint8Array.of(0, notFinite) };

  it.each(["values", "bytes"])("hatches rows of NaN, drawn from %s", (from) => {
    const pixels = createPixels(12, 2);
    if (from === "bytes") rasterizeBytes(pixels, box, matrix, colors);
    else rasterize(pixels, box, matrix, { x: 0, y: 0, width: 1, height: 2 }, () => 0, colors);
    expect(new Set(pixels.data.subarray(0, 12))).toEqual(new Set([0xff112233]));
    const hatched = new Set(pixels.data.subarray(12));
    expect(hatched.size).toBe(2);
    expect(hatched.has(0xff112233)).toBe(false);
  });
});
