import { describe, expect, it } from "vitest";
import { dimensionOrigin } from "./dimension_origin";
import { traceDimension } from "./dimension_rules";
import { tinyModel } from "./tiny_model";

const call = (operators: number) => [
  {
    path: "",
    type: "Net",
    parent: -1,
    operators: [0, operators] as [number, number],
    inputs: [0],
    outputs: [operators],
  },
];

/** Multi-head attention's way in: linear 6 → 8, split into 2 heads of 4, merged again, added to a skip. */
function heads() {
  return tinyModel(
    "heads",
    call(6),
    [
      { name: "linear", call: 0, inputs: [0, 7], output: 1 },
      { name: "view", call: 0, inputs: [1], output: 2, attributes: { size: "[3, 5, 2, 4]" } },
      { name: "transpose", call: 0, inputs: [2], output: 3, attributes: { dim0: "1", dim1: "2" } },
      { name: "transpose", call: 0, inputs: [3], output: 4, attributes: { dim0: "1", dim1: "2" } },
      { name: "reshape", call: 0, inputs: [4], output: 5 },
      { name: "+", call: 0, inputs: [5, 1], output: 6 },
    ],
    [
      [3, 5, 6],
      [3, 5, 8],
      [3, 5, 2, 4],
      [3, 2, 5, 4],
      [3, 5, 2, 4],
      [3, 5, 8],
      [3, 5, 8],
      [8, 6],
    ],
    { 7: "proj.weight" },
  );
}

describe("where a dimension comes from", () => {
  it("features come from the weight, positions from the input", () => {
    const model = heads();
    const width = dimensionOrigin(model, 6, 2);
    expect(width.ends).toEqual([
      { size: 8, text: "dimension 0 of parameter proj.weight", operator: 0, isFixed: true },
    ]);
    const tokens = dimensionOrigin(model, 6, 1);
    expect(tokens.ends).toEqual([{ size: 5, text: "dimension 1 of input 0", operator: 0, isFixed: false }]);
  });

  it("a width that was split into heads and merged is one width again", () => {
    const { steps } = dimensionOrigin(heads(), 6, 2);
    expect(steps.map(({ operator, what }) => [operator, what])).toEqual([
      [5, ""],
      [4, "2 × 4 became 8"],
      [3, ""],
      [3, "was dimension 1"],
      [2, ""],
      [2, "was dimension 2"],
      [1, "8 became 2 × 4"],
      [1, "8 became 2 × 4"],
      [0, "features that the weight makes"],
    ]);
    expect(steps.every(({ isCertain }) => isCertain)).toBe(true);
  });
});

const trace = (
  name: string,
  inputs: number[][],
  output: number[],
  position: number,
  attributes: Record<string, string> = {},
  weights: number[] = [],
) =>
  traceDimension(
    {
      name,
      inputs,
      output,
      attributes: new Map(Object.entries(attributes)),
      isWeight: inputs.map((_, input) => weights.includes(input)),
    },
    position,
  );

describe("what an operator does to a dimension", () => {
  it("a convolution makes channels and shrinks the picture", () => {
    const facts = [
      [
        [2, 3, 224, 224],
        [64, 3, 7, 7],
      ],
      [2, 64, 112, 112],
    ] as const;
    const of = (position: number) =>
      trace(
        "conv2d",
        facts[0].map((shape) => [...shape]),
        [...facts[1]],
        position,
        { stride: "[2, 2]" },
        [1],
      );
    expect(of(1)).toMatchObject({ sources: [{ input: 1, position: 0 }], isCertain: true });
    expect(of(2)).toMatchObject({
      sources: [{ input: 0, position: 2 }],
      what: "224 became 112 (kernel 7, stride [2, 2])",
    });
    expect(of(0)).toMatchObject({ sources: [{ input: 0, position: 0 }], what: "" });
  });

  it("a product takes rows from the first and columns from the second factor", () => {
    const inputs = [
      [1, 12, 128, 64],
      [1, 12, 64, 128],
    ];
    expect(trace("matmul", inputs, [1, 12, 128, 128], 2).sources).toEqual([{ input: 0, position: 2 }]);
    expect(trace("matmul", inputs, [1, 12, 128, 128], 3).sources).toEqual([{ input: 1, position: 3 }]);
  });

  it("joining adds up, splitting takes a part", () => {
    expect(
      trace(
        "cat",
        [
          [2, 1, 8],
          [2, 196, 8],
        ],
        [2, 197, 8],
        1,
        { dim: "1" },
      ).what,
    ).toBe("joined: 1 + 196");
    expect(trace("cat", [[2, 32]], [2, 64], 1, { dim: "1" }).what).toBe("joined: 32 (2 times)");
    expect(trace("split", [[1, 128, 2304]], [1, 128, 768], 2, { dim: "2" }).what).toBe("one part of 2304");
  });

  it("flattening a picture into tokens", () => {
    const rule = trace("flatten", [[2, 192, 14, 14]], [2, 192, 196], 2);
    expect(rule.sources).toEqual([
      { input: 0, position: 2 },
      { input: 0, position: 3 },
    ]);
    expect(rule.what).toBe("14 × 14 became 196");
    expect(trace("flatten", [[1, 512, 1, 1]], [1, 512], 1)).toMatchObject({
      sources: [{ input: 0, position: 1 }],
      what: "",
    });
  });

  it("dimensions of one are added, kept or taken away", () => {
    expect(trace("unsqueeze", [[4, 8]], [4, 1, 8], 1, { dim: "1" })).toMatchObject({ sources: [] });
    expect(trace("unsqueeze", [[4, 8]], [4, 1, 8], 2, { dim: "1" }).sources).toEqual([
      { input: 0, position: 1 },
    ]);
    expect(trace("[...]", [[2, 3, 64]], [2, 64], 1, { dim: "1", index: "0" }).sources).toEqual([
      { input: 0, position: 2 },
    ]);
    expect(trace("mean", [[2, 3, 64]], [2, 64], 1, { dim: "[1]" }).sources).toEqual([
      { input: 0, position: 2 },
    ]);
  });

  it("says that it guesses where it does not know the operator", () => {
    expect(trace("my_kernel", [[7, 9]], [9, 7], 0)).toMatchObject({
      sources: [{ input: 0, position: 1 }],
      isCertain: false,
    });
    expect(trace("my_kernel", [[7, 9]], [5], 0)).toMatchObject({ sources: [], what: "first seen here" });
  });
});
