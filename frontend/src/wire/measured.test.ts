import { describe, expect, it } from "vitest";
import { MeasuredModel, type MeasuredQuantity } from "./measured";

const record = (tag: string, step: number) => ({
  tag,
  step,
  wall_time: 0,
  hash: `${tag}${step}`,
  structure_hash: "s",
});

const norm = {
  name: "gradient_norm",
  modules: 4,
  records: [0, 1, 3],
} as unknown as MeasuredQuantity;

const model = new MeasuredModel("kd", {
  records: [
    record("measurement/m", 0),
    record("measurement/m//monitor", 0),
    record("measurement/m//cka", 50),
    record("measurement/m//monitor", 100),
  ],
  quantities: [norm, { ...norm, name: "in_optimizer", modules: 0 }],
});

describe("the measurements of a model", () => {
  it("have the steps at which a quantity was recorded", () => {
    expect(model.steps("gradient_norm")).toEqual([0, 100]);
    expect(model.steps("loss")).toEqual([]);
    // Of parameters alone.
    expect(model.steps("in_optimizer")).toEqual([]);
  });

  it("give nothing for what was not measured", async () => {
    expect(await model.valuesAt("loss", 0)).toBeNull();
  });
});
