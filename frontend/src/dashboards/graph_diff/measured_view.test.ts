import { describe, expect, it } from "vitest";
import { buildSingleTree } from "../../graph/build_tree";
import { KeyIndex } from "../../graph/node_key";
import { residualModel } from "../../graph/tiny_model";
import { MeasuredScale } from "../../ui/measured_scale";
import { palette } from "../../ui/tokens";
import type { MeasuredQuantity } from "../../wire/measured";
import { measuredName } from "./measured_colouring";
import { MeasuredPainting, together } from "./measured_view";

const norm: MeasuredQuantity = {
  name: "gradient_norm",
  label: "gradient norm",
  unit: "",
  scale: "log",
  sum: "squares",
  categories: [],
  meaning: "",
  minimum: 0,
  maximum: 1,
  least_positive: 0.01,
  modules: 2,
  records: [0],
};

describe("the graph in the colours of what was measured", () => {
  const tree = buildSingleTree(residualModel());
  const node = (path: string) => new KeyIndex(tree).find(`T:${path}`);
  const shown = {
    quantity: norm,
    teacher: {
      step: 3,
      values: new Map([
        ["stem", 1],
        ["head", 0],
      ]),
    },
    student: null,
  };
  const scale = new MeasuredScale(norm, { minimum: 0, maximum: 1, leastPositive: 0.01 }, palette(false));
  const painting = new MeasuredPainting(shown, scale, tree, palette(false));

  it("paints modules by their values, zero with a sign of its own, and leaves others plain", () => {
    const [stem, head, block] = ["stem", "head", "block"].map((path) =>
      painting.colour(node(path), "teacher"),
    );
    expect(stem!.line).toBe(scale.colour(1));
    expect(head!.glyph).toBe("0");
    expect(head!.fill).not.toBe(stem!.fill);
    expect(block!.fill).toBe(palette(false).page);
  });

  it("gives the outline the same values as texts", () => {
    expect(painting.column.text(node("stem"), "teacher")).toBe("1");
    expect(painting.column.text(node("head"), "teacher")).toBe("0");
    expect(painting.column.text(node("block"), "teacher")).toBe("");
    expect(painting.column.text(node("stem"), "student")).toBe("");
  });

  it("puts the values of repeated blocks together as they mean it", () => {
    expect(together([3, 4], "squares")).toBe(5);
    expect(together([3, 4], "plain")).toBe(7);
    expect(together([3, 4], "mean")).toBe(3.5);
    expect(together([3, 4], "maximum")).toBe(4);
    expect(together([3, 4], "")).toBeNaN();
    expect(together([], "plain")).toBeNaN();
    expect(together([1, 1], "", true)).toBe(1);
    expect(together([0, 1], "", true)).toBeNaN();
  });
});

describe("the name of a colouring", () => {
  it("says which quantity is meant, also as older addresses did", () => {
    expect(measuredName("measured:cka")).toBe("cka");
    expect(measuredName("gradient norm")).toBe("gradient_norm");
    expect(measuredName("kind")).toBeNull();
  });
});
