import { describe, expect, it } from "vitest";
import { buildSingleTree } from "../../graph/build_tree";
import { KeyIndex } from "../../graph/node_key";
import { residualModel, stackedModel } from "../../graph/tiny_model";
import { openedBy, openText } from "./open_address";

const tree = buildSingleTree(residualModel());
const keys = new KeyIndex(tree);
const block = keys.find("T:block");

describe("what is open, in an address", () => {
  it("is nothing for the first picture, names otherwise, and a word for everything of a large model", () => {
    expect(openText(tree, openedBy("", tree, keys))).toBe("");
    // In so small a model the first picture shows the block opened.
    expect(openText(tree, new Set([0]))).toBe("T:");
    const large = buildSingleTree(stackedModel(150));
    const all = openedBy("all", large, new KeyIndex(large));
    expect(all.size).toBe(152); // model, fold, 150 blocks
    expect(openText(large, all)).toBe("all");
  });

  it("is read again; what the model does not have is left out", () => {
    expect([...openedBy("T:block,T:nowhere", tree, keys)]).toEqual([block]);
  });
});
