import { describe, expect, it } from "vitest";
import { naturalKey, rankNumbers, rankTexts, sortRows } from "./index_sort";

describe("natural order", () => {
  it("puts layer.10 after layer.9, ignoring case, and gives empty texts no rank", () => {
    const { ranks, count } = rankTexts(["layer.10", "layer.9", "Layer.9", ""]);
    expect([[...ranks], count]).toEqual([[1, 0, 0, 2], 2]);
  });

  it("ignores case", () => expect(naturalKey("FC")).toBe(naturalKey("fc")));
});

describe("sorting rows", () => {
  const order = rankNumbers(Float64Array.from([3, Number.NaN, 1, 3, -0.5]));
  const all = () => Uint32Array.from([0, 1, 2, 3, 4]);

  it("ranks numbers, equal ones alike", () => {
    expect([[...order.ranks], order.count]).toEqual([[2, 3, 1, 2, 0], 3]);
  });

  it("is stable and puts unknown values last", () => {
    expect([...sortRows(all(), order, false)]).toEqual([4, 2, 0, 3, 1]);
  });

  it("keeps unknown values last when descending", () => {
    expect([...sortRows(all(), order, true)]).toEqual([0, 3, 2, 4, 1]);
  });

  it("sorts a selection of the rows", () => {
    expect([...sortRows(Uint32Array.from([0, 1, 4]), order, false)]).toEqual([4, 0, 1]);
  });
});
