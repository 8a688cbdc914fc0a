import { describe, expect, it } from "vitest";
import { parsePlan, planCall, planCommand, planText } from "./plan_file";

describe("a plan as a file", () => {
  it("comes back as it was written", () => {
    const intent = {
      policy: "uniform",
      policies: { "encoder.layer": [0, 2] },
      pins: { a: "x", b: ["y", "z"], c: null },
    };
    expect(parsePlan(planText({ teacher: "t", student: "s" }, intent))).toEqual(intent);
  });

  it("says what is wrong, and where", () => {
    expect(() => parsePlan("pins:")).toThrow("not JSON");
    expect(() => parsePlan("{}")).toThrow("none of");
    expect(() => parsePlan('{"pins": {"head": 3}}')).toThrow('"pins" of "head" is 3');
    expect(() => parsePlan('{"policies": {"layers": ["a"]}}')).toThrow("list of block numbers");
  });
});

describe("writing a plan into a run", () => {
  const models = { teacher: "teacher", student: "student" };
  const intent = {
    policy: "copy",
    policies: { blocks: "uniform", necks: [0, 6, 11] },
    pins: { "blocks.0": ["layer1", "layer2"], head: null },
  };

  it("by the command line, with names that a shell would split", () => {
    expect(planCommand("t_vs_s_plan.json", "kd")).toBe(
      "tb-structure plan t_vs_s_plan.json --logdir LOGDIR/kd",
    );
    expect(planCommand("a b.json", "it's")).toBe("tb-structure plan 'a b.json' --logdir 'LOGDIR/it'\\''s'");
    expect(planCommand("plan.json", ".")).toBe("tb-structure plan plan.json --logdir LOGDIR");
  });

  it("by a line of Python", () => {
    expect(planCall(models, intent)).toBe(
      'writer.add_plan("teacher", "student", policy="copy", stack_policies={"blocks": "uniform", "necks": [0, 6, 11]}, ' +
        'pins={"blocks.0": ["layer1", "layer2"], "head": None})',
    );
  });

  it("from the file that is saved", () => {
    expect(JSON.parse(planText(models, intent))).toEqual({ ...models, ...intent });
    expect(parsePlan(planText(models, intent))).toEqual(intent);
  });
});
