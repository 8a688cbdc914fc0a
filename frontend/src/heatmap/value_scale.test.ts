import { describe, expect, it } from "vitest";
import { SignedScale, ValueScale } from "./value_scale";

describe("a scale of values", () => {
  it.each([
    ["linear", 0.25, 64],
    ["sqrt", 0.25, 128],
    ["log", 0.01, 128],
    ["log", 0.00001, 0],
    ["linear", 7, 255],
    ["sqrt", 0, 0],
  ] as const)("%s: %d of 1 is entry %d", (kind, value, entry) => {
    expect(new ValueScale(kind, 1).index(value)).toBe(entry);
  });

  it.each(["linear", "sqrt", "log"] as const)("%s: valueAt undoes position", (kind) => {
    const scale = new ValueScale(kind, 0.8);
    expect(scale.valueAt(scale.position(0.3))).toBeCloseTo(0.3, 12);
  });

  it("gives NaN no colour and an all-zero matrix the lowest one", () => {
    expect(new ValueScale("sqrt", 1).index(Number.NaN)).toBe(-1);
    expect(new ValueScale("log", 0).index(0)).toBe(0);
  });
});

describe("a signed scale", () => {
  it("puts zero in the middle and is symmetric", () => {
    const scale = new SignedScale("linear", 0.5);
    expect([scale.index(-0.5), scale.index(0), scale.index(0.5)]).toEqual([0, 128, 255]);
    expect(scale.index(0.25) - 127.5).toBeCloseTo(127.5 - scale.index(-0.25), 0);
  });
});
