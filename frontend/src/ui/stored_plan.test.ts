import { describe, expect, it } from "vitest";
import type { PlanEntry } from "../wire/records";
import { type Choice, parseSide } from "./choice";
import { storedPlan } from "./stored_plan";

const choice = (run: string, model: string): Choice => ({
  run,
  tag: `structure/${model}`,
  model,
  variant: "",
  detail: "",
  weight: 1,
  steps: [{ step: 0, wall_time: 1, hash: "a" }],
});

const choices = [choice("kd", "teacher"), choice("kd", "student"), choice("other", "student")];
const side = (text: string) => parseSide(text, choices);

const step = (number: number, policy: string) => ({
  step: number,
  wall_time: number,
  hash: "h",
  policy,
  policies: {},
  pins: {},
});

const plans: PlanEntry[] = [
  {
    run: "kd",
    tag: "plan/teacher/student",
    teacher: "teacher",
    student: "student",
    steps: [step(0, "skip"), step(500, "uniform")],
  },
];

describe("the plan that was written for two models", () => {
  it("is the latest of the student's run", () => {
    expect(storedPlan(plans, side("kd:structure/teacher"), side("kd:structure/student"))?.policy).toBe(
      "uniform",
    );
  });

  it("may lie in the sub-run for records, where the command line puts it beside a training's own files", () => {
    const later = { ...plans[0]!, run: "kd/structure", steps: [{ ...step(0, "last"), wall_time: 900 }] };
    const of = (entries: PlanEntry[]) =>
      storedPlan(entries, side("kd:structure/teacher"), side("kd:structure/student"))?.policy;
    expect(of([later])).toBe("last");
    expect(of([later, ...plans])).toBe("last");
    expect(of([...plans, { ...later, run: "kd/other" }])).toBe("uniform");
  });

  it("does not hold the other way round, in another run, or without a student", () => {
    expect(storedPlan(plans, side("kd:structure/student"), side("kd:structure/teacher"))).toBeNull();
    expect(storedPlan(plans, side("kd:structure/teacher"), side("other:structure/student"))).toBeNull();
    expect(storedPlan(plans, side("kd:structure/teacher"), null)).toBeNull();
  });
});
