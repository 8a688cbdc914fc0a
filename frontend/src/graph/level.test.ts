import { describe, expect, it } from "vitest";
import { buildSingleTree } from "./build_tree";
import { cone } from "./cone";
import { NodeType } from "./diff_tree";
import { inputKey } from "./flow";
import { buildLevel } from "./level";
import { KeyIndex, nodeKey } from "./node_key";
import { residualModel, stackedModel, tinyModel } from "./tiny_model";

const tree = buildSingleTree(residualModel());
const keys = new KeyIndex(tree);
const node = (key: string) => keys.find(key);
/** Edges as "from → to", by the keys of the nodes. */
function edgesOf(opened: number): string[] {
  const level = buildLevel(tree, opened);
  const name = (end: number) => {
    if (end < level.children.length) return nodeKey(tree, level.children[end]!);
    const port = end - level.children.length;
    return port < level.inPorts.length ? "in" : "out";
  };
  return level.edges.map(({ from, to }) => `${name(from)} → ${name(to)}`).sort();
}

describe("the tree of one model", () => {
  it("numbers nodes in the order of execution, operators among the calls", () => {
    expect(Array.from({ length: tree.count }, (_, at) => nodeKey(tree, at))).toEqual([
      "T:",
      "T:stem",
      "T:stem/conv2d:0",
      "T:block",
      "T:block.conv",
      "T:block.conv/conv2d:0",
      "T:block.drop",
      "T:block/+:0",
      "T:head",
      "T:head/linear:0",
    ]);
  });

  it("shows a module around one operator as one thing", () => {
    expect(tree.isExpandable(node("T:stem"))).toBe(false);
    expect(tree.isExpandable(node("T:block"))).toBe(true);
  });

  it("finds nodes by name, and the call when the operator is gone", () => {
    expect(node("T:block/+:0")).toBe(7);
    expect(node("T:block/+:3")).toBe(node("T:block"));
    expect(node("T:nowhere")).toBe(-1);
  });

  it("folds numbered blocks of one class", () => {
    const stack = buildSingleTree(stackedModel(12));
    const [fold] = stack.children(0);
    expect(stack.type[fold!]).toBe(NodeType.FOLD);
    expect(stack.children(fold!)).toHaveLength(12);
  });
});

describe("one opened node", () => {
  it("lifts operator edges to the children", () => {
    expect(edgesOf(0)).toEqual(["T:block → T:head", "T:head → out", "T:stem → T:block", "in → T:stem"]);
  });

  it("shows the residual and passes data through a module without operators", () => {
    expect(edgesOf(node("T:block"))).toEqual([
      "T:block.conv → T:block.drop",
      "T:block.drop → T:block/+:0",
      "T:block/+:0 → out",
      "in → T:block.conv",
      "in → T:block/+:0",
    ]);
  });

  it("names ports so that both sides of a border agree", () => {
    expect(buildLevel(tree, 0).inPorts.map(({ key }) => key)).toEqual([inputKey(0)]);
    expect(buildLevel(tree, node("T:block")).inPorts.map(({ key }) => key)).toEqual([node("T:stem")]);
  });
});

describe("cones", () => {
  const names = (inside: Uint8Array) =>
    [...inside.keys()]
      .filter((at) => inside[at] && tree.type[at] === NodeType.CALL)
      .map((at) => nodeKey(tree, at));

  it("upstream holds all that a node depends on", () => {
    expect(names(cone(tree, node("T:block.drop"), "upstream"))).toEqual([
      "T:",
      "T:stem",
      "T:block",
      "T:block.conv",
      "T:block.drop",
    ]);
  });

  it("downstream holds all that depends on it", () => {
    expect(names(cone(tree, node("T:block.drop"), "downstream"))).toEqual([
      "T:",
      "T:block",
      "T:block.drop",
      "T:head",
    ]);
  });
});

describe("outputs", () => {
  it("are named after the first value that the model returns, not the first that was made", () => {
    // One operator makes a cache, the next the result; the model returns (result, cache) from one module.
    const model = tinyModel(
      "net",
      [
        { path: "", type: "Net", parent: -1, operators: [0, 2], inputs: [0], outputs: [2, 1] },
        { path: "body", type: "Body", parent: 0, operators: [0, 2], inputs: [0], outputs: [2, 1] },
      ],
      [
        { name: "cache", call: 1, inputs: [0], output: 1 },
        { name: "linear", call: 1, inputs: [1], output: 2 },
      ],
      [[4], [4], [4]],
    );
    const [port] = buildLevel(buildSingleTree(model), 0).outPorts;
    expect(port).toMatchObject({ teacherTensor: 2, count: 2 });
  });
});
