import { describe, expect, it } from "vitest";
import { Sequences } from "./sequences";

describe("numbers of lists", () => {
  it("are equal for equal lists, and given in the order of their first coming", () => {
    const numbers = new Sequences();
    const list = [1, 2];
    expect(numbers.number(list)).toBe(0);
    list.push(3);
    expect([[1, 2, 3], [1, 2], [], [2, 1], [1, 2, 3]].map((each) => numbers.number(each))).toEqual([
      1, 0, 2, 3, 1,
    ]);
    expect(numbers.count).toBe(4);
  });

  it("tell lists apart whose hashes meet", () => {
    const numbers = new Sequences();
    // The hash looks at 32 bits of a value.
    expect(numbers.number([2 ** 40])).toBe(0);
    expect(numbers.number([2 ** 41])).toBe(1);
    expect(numbers.number([2 ** 40])).toBe(0);
  });
});
