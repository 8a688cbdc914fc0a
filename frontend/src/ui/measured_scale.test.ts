import { describe, expect, it } from "vitest";
import type { MeasuredQuantity } from "../wire/measured";
import { MeasuredScale, measuredText } from "./measured_scale";
import { palette } from "./tokens";

function quantity(change: Partial<MeasuredQuantity>): MeasuredQuantity {
  return {
    name: "x",
    label: "x",
    unit: "",
    scale: "linear",
    sum: "",
    categories: [],
    meaning: "",
    minimum: 0,
    maximum: 1,
    least_positive: 1,
    modules: 1,
    records: [],
    ...change,
  };
}

const range = (minimum: number, maximum: number, leastPositive: number | null = null) => ({
  minimum,
  maximum,
  leastPositive,
});

describe("a scale of measured values", () => {
  it("tells orders of magnitude apart, with zero and what is not finite beside the scale", () => {
    const scale = new MeasuredScale(quantity({ scale: "log" }), range(0, 1, 1e-4), palette(false));
    expect(scale.place(1e-4)).toBe(0);
    expect(scale.place(1e-2)).toBeCloseTo(0.5);
    expect(scale.place(1)).toBe(1);
    expect([0, Number.POSITIVE_INFINITY, Number.NaN, undefined].map((value) => scale.place(value))).toEqual([
      "zero",
      "infinite",
      "unknown",
      "unknown",
    ]);
    expect([0, Number.POSITIVE_INFINITY, 0.5].map((value) => scale.glyph(value))).toEqual(["0", "∞", ""]);
    expect(scale.ends()).toEqual(["1.0e-4", "1"]);
  });

  it("begins at zero, or below it where values are", () => {
    expect(new MeasuredScale(quantity({}), range(0.5, 2), palette(false)).place(1)).toBeCloseTo(0.5);
    expect(new MeasuredScale(quantity({}), range(-2, 2), palette(false)).place(0)).toBeCloseTo(0.5);
  });

  it("is symmetric about zero where signs matter, and shows zero as the page", () => {
    for (const dark of [false, true]) {
      const scale = new MeasuredScale(quantity({ scale: "signed" }), range(-1, 4), palette(dark));
      expect(scale.ends()).toEqual(["−4", "4"]);
      expect(scale.colour(0)).toBe(palette(dark).page);
      expect(scale.colour(4)).toBe(palette(dark).tones.vermillion.line);
      expect(scale.colour(-4)).toBe(palette(dark).tones.blue.line);
    }
  });

  it("has a word for each category", () => {
    const mode = quantity({ scale: "category", categories: ["evaluation", "training"] });
    const scale = new MeasuredScale(mode, range(0, 1), palette(false));
    expect([scale.text(0), scale.text(1), scale.text(Number.NaN)]).toEqual(["evaluation", "training", ""]);
    expect(scale.colour(0)).not.toBe(scale.colour(1));
    expect(scale.ends()).toBeNull();
  });

  it("paints one value for all when a range has no extent", () => {
    for (const name of ["linear", "log", "signed"] as const) {
      const scale = new MeasuredScale(quantity({ scale: name }), range(3, 3, 3), palette(false));
      expect(scale.colour(3)).toMatch(/^#[0-9a-f]{6}$/);
    }
    const none = new MeasuredScale(
      quantity({ scale: "log" }),
      { minimum: null, maximum: null, leastPositive: null },
      palette(true),
    );
    expect(none.colour(1)).toMatch(/^#[0-9a-f]{6}$/);
  });

  it("writes numbers with their unit", () => {
    expect(measuredText(1.5e-5, "")).toBe("1.5e-5");
    expect(measuredText(-0.25, "")).toBe("−0.25");
    expect(measuredText(12345, "")).toBe("12.3 k");
    expect(measuredText(2048, "bytes")).toBe("2.00 KiB");
    expect(measuredText(1.5e6, "ns")).toBe("1.50 ms");
    expect(measuredText(3, "steps")).toBe("3 steps");
  });
});
