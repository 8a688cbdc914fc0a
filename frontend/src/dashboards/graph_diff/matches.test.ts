import { describe, expect, it } from "vitest";
import { buildSingleTree } from "../../graph/build_tree";
import { cone } from "../../graph/cone";
import { KindCounts } from "../../graph/kind_counts";
import { KeyIndex } from "../../graph/node_key";
import { finishNow } from "../../graph/sliced";
import { residualModel } from "../../graph/tiny_model";
import { outsideOfCone, outsideOfKinds } from "./faint_nodes";
import { matchesOf } from "./matches";

const tree = buildSingleTree(residualModel());
const keys = new KeyIndex(tree);
const at = (key: string) => keys.find(key);

describe("what is searched for", () => {
  it("is found in the outline's order", () => {
    const { nodes, set } = finishNow(matchesOf(tree, "class:Conv2d"));
    expect(nodes).toEqual([at("T:stem"), at("T:block.conv")]);
    expect(set.size).toBe(2);
  });

  it("is nothing without words, and an error when it cannot be understood", () => {
    expect(finishNow(matchesOf(tree, "  ")).nodes).toEqual([]);
    expect(finishNow(matchesOf(tree, "/(/")).error).toContain("not a regular expression");
  });
});

describe("what recedes", () => {
  const shown = (outside: Uint8Array | null, key: string) => outside?.[at(key)] === 0;

  it("is all that the selected node does not depend on", () => {
    const outside = outsideOfCone(tree, at("T:block.conv"), -1, "upstream");
    expect(["T:stem", "T:block.conv", "T:head"].map((key) => shown(outside, key))).toEqual([
      true,
      true,
      false,
    ]);
  });

  it("is all that lies on no way between two nodes, whichever was chosen first", () => {
    for (const [a, b] of [
      ["T:stem", "T:block.conv"],
      ["T:block.conv", "T:stem"],
    ] as const) {
      const outside = outsideOfCone(tree, at(a), at(b), "between");
      expect([shown(outside, "T:stem"), shown(outside, "T:block.conv"), shown(outside, "T:head")]).toEqual([
        true,
        true,
        false,
      ]);
    }
  });

  it("is nothing when nothing is followed or filtered for", () => {
    const counts = new KindCounts(tree);
    expect(outsideOfCone(tree, at("T:stem"), -1, null)).toBeNull();
    expect(outsideOfCone(tree, at("T:stem"), -1, "between")).toBeNull();
    expect(outsideOfKinds({ tree, alignment: null, keys, counts }, new Set())).toBeNull();
    expect(cone(tree, at("T:stem"), "downstream")[at("T:head")]).toBe(1);
  });
});
