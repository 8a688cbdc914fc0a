import { describe, expect, it } from "vitest";
import { lastAtMost } from "./last_at_most";

describe("the last value at most", () => {
  it.each([
    [[1, 3, 5], 0, 0],
    [[1, 3, 5], 1, 0],
    [[1, 3, 5], 4, 1],
    [[1, 3, 5], 9, 2],
    [[1, 3, 3, 5], 3, 2],
    [[], 3, 0],
  ])("in %j of %d is at %d", (values, limit, place) => {
    expect(lastAtMost(values, limit)).toBe(place);
  });

  it("looks at the first ones alone when told how many", () => {
    expect(lastAtMost([1, 3, 5], 9, 2)).toBe(1);
  });
});
