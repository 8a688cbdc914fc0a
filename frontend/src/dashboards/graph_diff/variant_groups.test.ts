import { expect, test } from "vitest";
import type { Difference } from "../../wire/variants";
import { variantGroups } from "./variant_groups";

const only = (path: string, text = "dropout", kind: Difference["kind"] = "first"): Difference => ({
  kind,
  subject: "operator",
  path,
  text,
  rows: [0, -1],
});

test("one line for what differs in every layer", () => {
  const groups = variantGroups([only("layers.0.drop"), only("layers.1.drop"), only("head")]);
  expect(groups.map(({ place, members }) => [place, members.length])).toEqual([
    ["layers.#.drop", 2],
    ["head", 1],
  ]);
});

test("two of the same at one place keep the place's own path", () => {
  expect(variantGroups([only("layers.3"), only("layers.3")]).map(({ place }) => place)).toEqual(["layers.3"]);
});

test("what ran on different sides stays apart", () => {
  expect(variantGroups([only("a.0"), only("a.1", "dropout", "second"), only("a.2", "relu")])).toHaveLength(3);
});
