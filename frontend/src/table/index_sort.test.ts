import { describe, expect, it } from "vitest";
import { naturalKey, rankNumbers, rankTexts, rankTextsInSteps, sortRows } from "./index_sort";

describe("natural order", () => {
  it("puts layer.10 after layer.9, ignoring case, and gives empty texts no rank", () => {
    const { ranks, count } = rankTexts(["layer.10", "layer.9", "Layer.9", ""]);
    expect([[...ranks], count]).toEqual([[1, 0, 0, 2], 2]);
  });

  it("ignores case", () => expect(naturalKey("FC")).toBe(naturalKey("fc")));
});

describe("many texts", () => {
  const texts = Array.from(
    { length: 9_000 },
    (_, row) => `h.${(row * 7_919) % 3_000}.attn${row % 2 ? "" : "N"}`,
  );

  it("come in the order of their keys, equal ones sharing a rank", () => {
    const { ranks, count } = rankTexts(texts);
    expect(count).toBe(3_000);
    const rows = sortRows(Uint32Array.from(texts.keys()), { ranks, count }, false);
    const sorted = Array.from(rows, (row) => naturalKey(texts[row] ?? ""));
    expect(sorted).toEqual([...sorted].sort());
  });

  it("are ranked in steps, each of which can be the last for now", () => {
    const work = rankTextsInSteps(texts.length, (row) => texts[row] ?? "");
    let steps = 0;
    let result = work.next();
    for (; !result.done; result = work.next()) steps++;
    expect(steps).toBeGreaterThan(10);
    expect(result.value).toEqual(rankTexts(texts));
  });
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
