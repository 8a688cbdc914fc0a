import { describe, expect, it } from "vitest";
import { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import { buildTree } from "./build_tree";
import { cardText, foldCount, mergedText } from "./card";
import { NodeType } from "./diff_tree";
import { KindCounts } from "./kind_counts";
import { KeyIndex, nodeKey } from "./node_key";
import { residualModel, stackedModel, tinyAlignment } from "./tiny_model";

const { IDENTICAL, RESIZED, DELETED, INSERTED } = PairKind;

describe("the tree of two models", () => {
  // The student has everything but the dropout.
  const teacher = residualModel("teacher", 16);
  const student = residualModel("student", 8);
  const tree = buildTree(
    teacher,
    student,
    tinyAlignment(
      [
        [0, 0, -1, RESIZED],
        [1, 1, 0, RESIZED],
        [2, 2, 0, RESIZED],
        [3, 3, 2, RESIZED],
        [4, -1, 2, DELETED],
        [5, 5, 0, IDENTICAL],
      ],
      [
        [0, 0, 1, IDENTICAL],
        [2, 2, 2, IDENTICAL],
      ],
    ),
  );
  const keys = new KeyIndex(tree);

  it("has each pair once and operators that the aligner left out on their own sides", () => {
    const kinds = Array.from({ length: tree.count }, (_, node) => [nodeKey(tree, node), tree.kind[node]]);
    expect(kinds).toEqual([
      ["S:", RESIZED],
      ["S:stem", RESIZED],
      ["S:stem/conv2d:0", IDENTICAL],
      ["S:block", RESIZED],
      ["S:block.conv", RESIZED],
      ["T:block.conv/conv2d:0", DELETED],
      ["S:block.conv/conv2d:0", INSERTED],
      ["T:block.drop", DELETED],
      ["S:block/+:0", IDENTICAL],
      ["S:head", IDENTICAL],
      ["T:head/linear:0", DELETED],
      ["S:head/linear:0", INSERTED],
    ]);
  });

  it("can be asked by the name of either side", () => {
    expect(keys.find("T:block.conv")).toBe(keys.find("S:block.conv"));
    expect(keys.find("S:block.drop")).toBe(-1);
  });

  it("counts leaves by kind", () => {
    const counts = new KindCounts(tree);
    expect(counts.count(0, DELETED)).toBeGreaterThan(0);
    expect(counts.shares(keys.find("S:stem")).map(({ kind }) => kind.id)).toEqual(["resized"]);
  });

  it("says nothing on a side that has nothing", () => {
    expect(cardText(tree, keys.find("T:block.drop"), "student")).toEqual({ title: "", subtitle: "" });
    expect(mergedText(tree, keys.find("T:block.drop"))).toEqual({ title: "drop", subtitle: "Dropout" });
  });
});

describe("stacks", () => {
  it("fold into one node with both counts", () => {
    const tree = buildTree(
      stackedModel(4),
      stackedModel(2),
      tinyAlignment(
        [
          [0, 0, -1, IDENTICAL],
          [1, 1, 0, IDENTICAL],
          [2, -1, 0, DELETED],
          [3, -1, 0, DELETED],
          [4, 2, 0, IDENTICAL],
        ],
        [],
        0,
      ),
    );
    const [fold] = tree.children(0);
    expect(tree.type[fold!]).toBe(NodeType.FOLD);
    expect([foldCount(tree, fold!, "teacher"), foldCount(tree, fold!, "student")]).toEqual([4, 2]);
    expect(mergedText(tree, fold!)).toEqual({ title: "layers ×4 ↔ layers ×2", subtitle: "Layer" });
  });
});
