import { describe, expect, it } from "vitest";
import { buildSingleTree } from "../../graph/build_tree";
import { KindCounts } from "../../graph/kind_counts";
import { KeyIndex, nodeKey } from "../../graph/node_key";
import { residualModel } from "../../graph/tiny_model";
import { outlineRows, rowOf } from "./outline_rows";

const tree = buildSingleTree(residualModel());
const counts = new KindCounts(tree);
const block = new KeyIndex(tree).find("T:block");
const names = (open: number[]) =>
  outlineRows(tree, new Set(open), new Set(), counts).map((node) => nodeKey(tree, node));

describe("rows of the outline", () => {
  it("are the model and what is inside opened nodes, in the order of execution", () => {
    expect(names([0])).toEqual(["T:", "T:stem", "T:block", "T:head"]);
    expect(names([0, block])).toEqual([
      "T:",
      "T:stem",
      "T:block",
      "T:block.conv",
      "T:block.drop",
      "T:block/+:0",
      "T:head",
    ]);
    expect(names([block])).toEqual(["T:"]);
  });

  it("are found by their nodes", () => {
    const rows = outlineRows(tree, new Set([0]), new Set(), counts);
    expect(rows.map((node) => rowOf(rows, node))).toEqual([0, 1, 2, 3]);
    expect([rowOf(rows, block + 1), rowOf(rows, -1), rowOf([], 0)]).toEqual([-1, -1, -1]);
  });
});
