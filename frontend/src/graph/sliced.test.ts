import { describe, expect, it } from "vitest";
import { buildSingleTree } from "./build_tree";
import { LayoutPlan } from "./layout_plan";
import { finishNow, finishSliced, type Sliced } from "./sliced";
import { stackedModel } from "./tiny_model";

function* busy(pieces: number, ms: number): Sliced<string> {
  for (let piece = 0; piece < pieces; piece++) {
    const end = performance.now() + ms;
    while (performance.now() < end);
    yield;
  }
  return "done";
}

describe("work in slices", () => {
  it("gives the thread back between slices", async () => {
    let turns = 0;
    const others = setInterval(() => turns++, 1);
    expect(await finishSliced(busy(20, 5))).toBe("done");
    clearInterval(others);
    expect(turns).toBeGreaterThan(3);
  });

  it("ends when it is no longer wanted", async () => {
    const controller = new AbortController();
    const work = finishSliced(busy(1000, 5), controller.signal);
    controller.abort();
    await expect(work).rejects.toThrow(/abort/i);
  });

  it("comes to the same as at once", async () => {
    const tree = buildSingleTree(stackedModel(50));
    const at = (plan: LayoutPlan) => plan.slicedSpecsOf(() => true);
    const [once, sliced] = [new LayoutPlan(tree, "merged"), new LayoutPlan(tree, "merged")];
    expect(await finishSliced(at(sliced))).toEqual(finishNow(at(once)));
  });
});
