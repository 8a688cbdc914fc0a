import { describe, expect, it } from "vitest";
import type { MeasuredListing } from "../../wire/measured";
import type { Records } from "../../wire/records";
import { only, thinned } from "./report_answers";

describe("what a report holds", () => {
  it("holds only the records that are shown", () => {
    const step = (number: number) => ({ step: number, hash: "" });
    const records = {
      structures: [
        { run: "a", tag: "structure/t", steps: [step(0), step(5)] },
        { run: "b", tag: "structure/t", steps: [step(5)] },
      ],
      attention: [{}],
      measurements: [],
    } as unknown as Records;
    const kept = only(records, [{ run: "a", tag: "structure/t", step: 5, hash: "" }]);
    expect(kept.structures.map(({ run, steps }) => [run, steps.map(({ step }) => step)])).toEqual([
      ["a", [5]],
    ]);
    expect(kept.attention).toEqual([]);
  });

  it("are measurements and the loss beside the two models, and of no others", () => {
    const entry = (run: string, tag: string, kind: string) => {
      const model = tag.split("/")[1];
      return { run, tag, kind, model, steps: [{ step: 0, hash: "" }] };
    };
    const measured = (run: string, model: string) => ({ run, tag: `measurement/${model}`, model, steps: [] });
    const records = {
      structures: [
        entry("kd", "structure/t", "structure"),
        entry("kd", "structure/s", "structure"),
        entry("kd", "outside/step", "outside"),
        entry("other", "outside/step", "outside"),
      ],
      measurements: [measured("kd", "s"), measured("kd", "third"), measured("other", "s")],
    } as unknown as Records;
    const address = (tag: string) => ({ run: "kd", tag, step: 0, hash: "" });
    const kept = only(records, [address("structure/t"), address("structure/s")]);
    expect(kept.structures.map(({ run, tag }) => `${run} ${tag}`)).toEqual([
      "kd structure/t",
      "kd structure/s",
      "kd outside/step",
    ]);
    expect(kept.measurements.map(({ run, model }) => `${run} ${model}`)).toEqual(["kd s"]);
    // One model alone was compared by no loss.
    expect(only(records, [address("structure/s")]).structures).toHaveLength(1);
  });

  it("are of many measured steps some, evenly and with the first and the last", () => {
    const listing = {
      records: [0, 10, 20, 30, 40].map((step) => ({ tag: "measurement/s", step })),
      quantities: [
        { name: "gradient_norm", records: [0, 1, 2, 3, 4] },
        { name: "similarity", records: [1, 4] },
      ],
    } as unknown as MeasuredListing;
    const kept = thinned(listing, 3);
    expect(kept.records.map(({ step }) => step)).toEqual([0, 20, 40]);
    expect(kept.quantities.map(({ records }) => records)).toEqual([[0, 1, 2], [2]]);
    expect(thinned(listing, 5)).toBe(listing);
  });
});
