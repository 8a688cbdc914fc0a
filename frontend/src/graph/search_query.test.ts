import { describe, expect, it } from "vitest";
import { buildSingleTree } from "./build_tree";
import { nodeKey } from "./node_key";
import { parseQuery } from "./search_query";
import { residualModel } from "./tiny_model";

const tree = buildSingleTree(residualModel());
const found = (text: string) => {
  const query = parseQuery(text);
  expect(query.error).toBe("");
  return Array.from({ length: tree.count }, (_, node) => node)
    .filter((node) => query.matches(tree, node))
    .map((node) => nodeKey(tree, node));
};

describe("search", () => {
  it("looks in paths, classes and operator names", () => {
    expect(found("drop")).toEqual(["T:block.drop"]);
    expect(found("LINEAR")).toEqual(["T:head", "T:head/linear:0"]);
  });

  it("wants every word", () => {
    expect(found("block class:conv")).toEqual(["T:block.conv"]);
  });

  it("knows operators, attributes and patterns", () => {
    expect(found("op:+")).toEqual(["T:block/+:0"]);
    expect(found("stride=2")).toEqual(["T:block.conv"]);
    expect(found("/^(stem|head) /")).toEqual(["T:stem", "T:head"]);
  });

  it("matches shapes with stars and dots", () => {
    expect(found("class:Linear shape:[*,10]")).toEqual(["T:head"]);
    expect(found("class:Conv2d shape:[1,3,...]")).toEqual(["T:stem"]);
    expect(found("class:Net shape:10")).toEqual([]);
  });

  it("finds nothing for an empty search, and says what it cannot read", () => {
    expect(found("  ")).toEqual([]);
    expect(parseQuery("shape:[a,b]").error).toContain("not a shape");
    expect(parseQuery("/(/").error).toContain("not a regular expression");
    expect(parseQuery("kind:blue").error).toContain("no kind");
  });
});
