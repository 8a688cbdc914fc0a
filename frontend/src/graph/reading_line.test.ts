import { describe, expect, it } from "vitest";
import { buildSingleTree } from "./build_tree";
import { LayoutPlan } from "./layout_plan";
import { layoutLevel } from "./level_layout";
import { KeyIndex } from "./node_key";
import { heightOf, readingLine, rowAt, rowTops, windowFor } from "./reading_line";
import { Scene } from "./scene";
import { residualModel } from "./tiny_model";

describe("the line that is read", () => {
  it("is the top of what is long at its top, and its end at its end", () => {
    expect(readingLine({ top: 0, end: 1000, at: 0, size: 200 })).toBe(0);
    expect(readingLine({ top: 0, end: 1000, at: 800, size: 200 })).toBe(1000);
    expect(readingLine({ top: 0, end: 1000, at: 400, size: 200 })).toBe(500);
  });

  it("is reached by the window that reads it", () => {
    const span = { top: -50, end: 950, at: 317, size: 240 };
    expect(windowFor(readingLine(span), span)).toBeCloseTo(317);
  });

  it("leaves what is seen as a whole where it is", () => {
    expect(windowFor(90, { top: 0, end: 100, at: 0, size: 400 })).toBe(0);
  });
});

describe("rows and the drawing", () => {
  const tree = buildSingleTree(residualModel());
  const keys = new KeyIndex(tree);
  const block = keys.find("T:block");
  const plan = new LayoutPlan(tree, "side by side");
  const specs = plan.specsOf((node) => node === 0 || node === block);
  for (const spec of plan.missing(specs.values())) {
    plan.layouts.set(
      spec.id,
      layoutLevel(spec, (id) => plan.layouts.get(id)!),
    );
  }
  const scene = new Scene(plan, specs);
  const rows = [0, keys.find("T:stem"), block, keys.find("T:block.conv"), keys.find("T:head")];
  const tops = rowTops(scene, rows);

  it("begin where the drawing shows their nodes", () => {
    for (const row of [1, 2, 3, 4]) expect(tops[row]).toBeCloseTo(scene.rect(rows[row]!)!.y, 3);
    const { y, height } = scene.bounds();
    expect([tops[0], tops[5]]).toEqual([y, y + height]);
  });

  it("are found again by their heights", () => {
    for (const row of [0, 1.5, 2, 3.25, 4.75]) expect(rowAt(heightOf(row, tops), tops)).toBeCloseTo(row, 3);
  });
});
