import { describe, expect, it } from "vitest";
import { naturalKey, sortRows, textRanks } from "./index_sort";

describe("natural order", () => {
  it("puts layer.10 after layer.9", () => {
    const ranks = textRanks(["layer.10", "layer.9", "Layer.9", ""]);
    expect([...ranks]).toEqual([1, 0, 0, Number.NaN]);
  });

  it("ignores case", () => expect(naturalKey("FC")).toBe(naturalKey("fc")));
});

describe("sorting rows", () => {
  const keys = Float64Array.from([3, Number.NaN, 1, 3]);
  const all = () => Uint32Array.from([0, 1, 2, 3]);

  it("is stable and puts unknown values last", () => {
    expect([...sortRows(all(), keys, false)]).toEqual([2, 0, 3, 1]);
  });

  it("keeps unknown values last when descending", () => {
    expect([...sortRows(all(), keys, true)]).toEqual([0, 3, 2, 1]);
  });
});
