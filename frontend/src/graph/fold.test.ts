import { describe, expect, it } from "vitest";
import { buildSingleTree } from "./build_tree";
import { cardText, foldCount, nodeName } from "./card";
import { NodeType } from "./diff_tree";
import { type TinyCall, tinyModel } from "./tiny_model";

/** `x = x + block(x)` for each block, or one block called again and again. */
function residualStack(count: number, path: (index: number) => string) {
  const calls: TinyCall[] = [
    { path: "", type: "Net", parent: -1, operators: [0, 2 * count], inputs: [0], outputs: [2 * count] },
  ];
  for (let index = 0; index < count; index++) {
    calls.push({ path: path(index), type: "Linear", parent: 0, operators: [2 * index, 2 * index + 1] });
  }
  const operators = Array.from({ length: 2 * count }, (_, row) => {
    const index = row >> 1;
    return row % 2
      ? { name: "+", call: 0, inputs: [2 * index, 2 * index + 1], output: 2 * index + 2 }
      : { name: "linear", call: index + 1, inputs: [2 * index], output: 2 * index + 1 };
  });
  return buildSingleTree(
    tinyModel(
      "net",
      calls,
      operators,
      Array.from({ length: 2 * count + 1 }, () => [4]),
    ),
  );
}

describe("folding", () => {
  it("sees blocks with the same operator after each as one stack", () => {
    const tree = residualStack(6, (index) => `blocks.${index}`);
    const [fold, ...others] = tree.children(0);
    expect(others).toEqual([]);
    expect(tree.type[fold!]).toBe(NodeType.FOLD);
    expect(foldCount(tree, fold!, "teacher")).toBe(6);
    expect(cardText(tree, fold!, "teacher")).toEqual({ title: "blocks ×6", subtitle: "Linear" });
  });

  it("stacks the calls of a loop", () => {
    const tree = residualStack(5, () => "cell");
    const [fold] = tree.children(0);
    expect(cardText(tree, fold!, "teacher").title).toBe("cell ×5");
    expect(nodeName(tree, tree.children(fold!)[2]!, "teacher")).toBe("cell (call 2)");
  });

  it("leaves stages apart whose names only end in a number", () => {
    const tree = residualStack(4, (index) => `layer${index + 1}`);
    expect(tree.children(0)).toHaveLength(8);
  });

  it("leaves two blocks as they are", () => {
    expect(residualStack(2, (index) => `blocks.${index}`).children(0)).toHaveLength(4);
  });
});
