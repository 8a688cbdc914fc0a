import { describe, expect, it } from "vitest";
import { measurementOf } from "./measurement";
import type { Records } from "./records";

describe("the measurement of a structure", () => {
  const step = (number: number, structure_hash: string) => ({
    step: number,
    hash: `m${number}`,
    structure_hash,
  });
  const records = {
    measurements: [
      {
        run: "kd",
        tag: "measurement/student",
        model: "student",
        steps: [step(0, "s"), step(10, "s"), step(20, "other")],
      },
      { run: "old", tag: "measurement/student", model: "student", steps: [step(90, "s")] },
    ],
  } as unknown as Records;

  it("is the latest of the run with the same structure", () => {
    expect(measurementOf(records, "kd", "s")).toEqual({
      run: "kd",
      tag: "measurement/student",
      step: 10,
      hash: "m10",
    });
  });

  it("is null when nothing was measured", () => {
    expect(measurementOf(records, "kd", "t")).toBeNull();
  });
});
