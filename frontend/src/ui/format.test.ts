import { describe, expect, it } from "vitest";
import { elided, exactNumber, ratio, shapeText, shortBytes, shortDuration, shortNumber } from "./format";

describe("format", () => {
  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1.00 k"],
    [25_557_032, "25.6 M"],
    [999_999, "1.00 M"],
    [4_089_184_256, "4.09 G"],
    [Number.NaN, "?"],
    [0.5, "0.50"],
  ])("shortens %d to %s", (value, text) => expect(shortNumber(value)).toBe(text));

  it("gives the exact number on demand", () => {
    expect(exactNumber(25_557_032)).toBe("25,557,032");
    expect(exactNumber(Number.NaN)).toBe("unknown");
  });

  it("uses binary units for bytes", () => {
    expect(shortBytes(102_228_128)).toBe("97.5 MiB");
    expect(shortBytes(12)).toBe("12 B");
  });

  it("divides student by teacher", () => {
    expect(ratio(11_689_512, 25_557_032)).toBe("0.46 ×");
    expect(ratio(5, 0)).toBe("");
    expect(ratio(Number.NaN, 4)).toBe("");
    expect(ratio(12, 1)).toBe("12.0 ×");
    expect(ratio(1, 1000)).toBe("0.001 ×");
  });

  it("writes shapes and durations", () => {
    expect(shapeText([2, 64, 56, 56])).toBe("2×64×56×56");
    expect(shapeText([])).toBe("scalar");
    expect(shortDuration(1_240_000)).toBe("1.24 ms");
  });

  it("keeps both ends of a word that no line could hold", () => {
    const path = `model.${"inner.".repeat(40)}conv`;
    expect(elided(`1 of 2 differ: ${path} only in the teacher`)).toBe(
      `1 of 2 differ: ${path.slice(0, 40)}…${path.slice(-40)} only in the teacher`,
    );
    expect(elided("encoder.layer.3 → encoder.layer.1")).toBe("encoder.layer.3 → encoder.layer.1");
  });
});
