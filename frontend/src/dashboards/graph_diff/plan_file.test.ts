import { describe, expect, it } from "vitest";
import { parsePlan, planText } from "./plan_file";

describe("a plan as a file", () => {
  it("comes back as it was written", () => {
    const intent = {
      policy: "uniform",
      policies: { "encoder.layer": [0, 2] },
      pins: { a: "x", b: ["y", "z"], c: null },
    };
    expect(parsePlan(planText(intent))).toEqual(intent);
  });

  it("says what is wrong, and where", () => {
    expect(() => parsePlan("pins:")).toThrow("not JSON");
    expect(() => parsePlan("{}")).toThrow("none of");
    expect(() => parsePlan('{"pins": {"head": 3}}')).toThrow('"pins" of "head" is 3');
    expect(() => parsePlan('{"policies": {"layers": ["a"]}}')).toThrow("list of block numbers");
  });
});
