import { describe, expect, it } from "vitest";
import { compileFilter, parseQuantity } from "./filter_expression";

const passes = (expression: string, text: string, value?: number) =>
  compileFilter(expression, value !== undefined)?.(text, value ?? Number.NaN) ?? true;

describe("a column filter", () => {
  it("lets everything pass when it is empty or unfinished", () => {
    expect(compileFilter("  ", false)).toBeNull();
    expect(compileFilter(">", true)).toBeNull();
  });

  it("wants every word, in any case", () => {
    expect(passes("conv LAYER1", "layer1.0.conv2")).toBe(true);
    expect(passes("conv layer2", "layer1.0.conv2")).toBe(false);
  });

  it("excludes words after an exclamation mark", () => {
    expect(passes("layer1 !conv", "layer1.0.bn1")).toBe(true);
    expect(passes("layer1 !conv", "layer1.0.conv1")).toBe(false);
  });

  it("compares whole texts after an equals sign", () => {
    expect(passes("=fc", "fc")).toBe(true);
    expect(passes("=fc", "fc1")).toBe(false);
    expect(passes("!=fc", "fc1")).toBe(true);
  });

  it("compares numbers with magnitudes", () => {
    expect(passes("> 1.5M", "2 M", 2_000_000)).toBe(true);
    expect(passes(">1.5M", "1.2 M", 1_200_000)).toBe(false);
    expect(passes("<= 0.5", "0.46 ×", 0.46)).toBe(true);
    expect(passes("<0.5", "unknown", Number.NaN)).toBe(false);
  });

  it("finds the rounded number that a person reads", () => {
    expect(passes("=25.6M", "25.6 M", 25_557_032)).toBe(true);
    expect(passes("=25.6M", "26.0 M", 26_000_000)).toBe(false);
  });

  it("searches the text of a numeric column when it is no comparison", () => {
    expect(passes("unknown", "unknown", Number.NaN)).toBe(true);
  });
});

describe("a quantity", () => {
  it.each([
    ["16,384", 16384],
    ["1.5M", 1.5e6],
    ["4.5 G", 4.5e9],
    ["3e6", 3e6],
    ["0.46 ×", 0.46],
    ["-2", -2],
  ])("%s is %d", (text, value) => expect(parseQuantity(text)).toBe(value));

  it("is null for other text", () => expect(parseQuantity("layer1")).toBeNull());
});
