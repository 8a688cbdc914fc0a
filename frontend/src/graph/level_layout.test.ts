import { describe, expect, it } from "vitest";
import { buildSingleTree } from "./build_tree";
import { LayoutPlan } from "./layout_plan";
import { type LevelLayout, type LevelSpec, layoutLevel } from "./level_layout";
import { findSkips, longestPathRanks } from "./ranks";
import { finishNow } from "./sliced";
import { residualModel, stackedModel } from "./tiny_model";

function spec(children: number, edges: [number, number][], change: Partial<LevelSpec> = {}): LevelSpec {
  return {
    id: 0,
    outline: 0,
    widths: new Float32Array(children).fill(100),
    heights: new Float32Array(children).fill(40),
    nested: new Int32Array(children).fill(-1),
    inPorts: 0,
    outPorts: 0,
    portWidths: new Float32Array(0),
    portHeight: 0,
    from: Int32Array.from(edges, ([from]) => from),
    to: Int32Array.from(edges, ([, to]) => to),
    sides: new Uint8Array(edges.length).fill(1),
    labelWidths: new Float32Array(edges.length).fill(60),
    headerHeight: 28,
    ...change,
  };
}

const noNested = () => ({ width: 0, height: 0 });
const chain = (count: number) =>
  Array.from({ length: count - 1 }, (_, at) => [at, at + 1] as [number, number]);

function overlaps(layout: LevelLayout, children: number): number {
  let found = 0;
  for (let a = 0; a < children; a++) {
    for (let b = a + 1; b < children; b++) {
      const apart =
        layout.x[a]! + layout.w[a]! <= layout.x[b]! ||
        layout.x[b]! + layout.w[b]! <= layout.x[a]! ||
        layout.y[a]! + layout.h[a]! <= layout.y[b]! ||
        layout.y[b]! + layout.h[b]! <= layout.y[a]!;
      if (!apart) found++;
    }
  }
  return found;
}

describe("one level", () => {
  it("puts what reads below what it reads, apart and inside the frame", () => {
    const layout = layoutLevel(
      spec(4, [
        [0, 1],
        [0, 2],
        [1, 3],
        [2, 3],
      ]),
      noNested,
    );
    expect(layout.y[1]).toBeGreaterThan(layout.y[0]! + 40);
    expect(layout.y[3]).toBeGreaterThan(layout.y[2]! + 40);
    expect(overlaps(layout, 4)).toBe(0);
    for (let child = 0; child < 4; child++) {
      expect(layout.x[child]).toBeGreaterThanOrEqual(0);
      expect(layout.x[child]! + layout.w[child]!).toBeLessThanOrEqual(layout.width);
      expect(layout.y[child]).toBeGreaterThanOrEqual(28);
      expect(layout.y[child]! + layout.h[child]!).toBeLessThanOrEqual(layout.height);
    }
  });

  it("puts ports on the border, straight above and below what they serve", () => {
    const layout = layoutLevel(
      spec(
        2,
        [
          [0, 1],
          [2, 0],
          [1, 3],
        ],
        { inPorts: 1, outPorts: 1, portWidths: new Float32Array(2) },
      ),
      noNested,
    );
    expect(layout.y[2]).toBe(0);
    expect(layout.y[3]).toBe(layout.height);
    expect(layout.x[2]).toBeCloseTo(layout.x[0]! + 50, 3);
    expect(layout.x[3]).toBeCloseTo(layout.x[1]! + 50, 3);
  });

  it("gives opened children the size of what is in them", () => {
    const layout = layoutLevel(spec(2, [[0, 1]], { nested: Int32Array.from([7, -1]) }), () => ({
      width: 400,
      height: 300,
    }));
    expect([layout.w[0], layout.h[0]]).toEqual([400, 300]);
    expect(layout.y[1]).toBeGreaterThan(layout.y[0]! + 300);
  });

  it("routes an edge past many others in a lane beside them", () => {
    const layout = layoutLevel(spec(20, [...chain(20), [0, 19]]), noNested);
    const xs: number[] = [];
    for (let at = layout.starts[19]!; at < layout.starts[20]!; at++) xs.push(layout.points[2 * at]!);
    const right = Math.max(...Array.from(layout.x, (x, node) => x + layout.w[node]!));
    expect(Math.max(...xs)).toBeGreaterThan(right);
    expect(Math.max(...xs)).toBeLessThan(layout.width);
  });

  it("keeps what all blocks of a stack read out of their way: one lane for all, and no skip connection", () => {
    // A port that 20 blocks read, as a mask is read.
    const edges: [number, number][] = [
      ...chain(20),
      ...Array.from({ length: 20 }, (_, at) => [20, at] as [number, number]),
    ];
    const layout = layoutLevel(spec(20, edges, { inPorts: 1, portWidths: new Float32Array(1) }), noNested);
    const middles = Array.from({ length: 20 }, (_, node) => layout.x[node]! + layout.w[node]! / 2);
    for (const middle of middles.slice(3)) expect(middle).toBeCloseTo(middles[3]!, 0);
    const reached = new Set<number>();
    for (let edge = 19; edge < edges.length; edge++) {
      if (!layout.isLane[edge]) continue;
      let right = 0;
      for (let at = layout.starts[edge]!; at < layout.starts[edge + 1]!; at++)
        right = Math.max(right, layout.points[2 * at]!);
      reached.add(right);
    }
    expect(reached.size).toBe(1);
    expect([...layout.skips]).toEqual(edges.map(() => 0));
  });

  it("knows the skip connections of each model by its own edges", () => {
    // 0 → 1 → 2 in the teacher; the student has no 1. Both have 2 → 3 → 4, and 2 → 4 is a residual.
    const edges: [number, number][] = [
      [0, 1],
      [1, 2],
      [0, 2],
      [2, 3],
      [3, 4],
      [2, 4],
    ];
    const layout = layoutLevel(spec(5, edges, { sides: Uint8Array.of(1, 1, 2, 3, 3, 3) }), noNested);
    expect([...layout.skips]).toEqual([0, 0, 0, 0, 0, 3]);
  });

  it("lays out a flat chain of 20,000 without dagre's recursion", () => {
    const layout = layoutLevel(spec(20_000, chain(20_000)), noNested);
    expect(layout.y[19_999]).toBeGreaterThan(layout.y[19_998]!);
  });

  it("draws every edge of a level that is too large for dagre, from port to port", () => {
    const edges: [number, number][] = [[400, 0], ...chain(400), [399, 401]];
    const layout = layoutLevel(
      spec(400, edges, { inPorts: 1, outPorts: 1, portWidths: new Float32Array(2) }),
      noNested,
    );
    for (let edge = 0; edge < edges.length; edge++) {
      expect(layout.starts[edge + 1]! - layout.starts[edge]!).toBeGreaterThanOrEqual(2);
    }
    expect(layout.points[1]).toBe(0);
    expect(layout.points[2 * layout.starts[401]! - 1]).toBe(layout.height);
  });

  it("survives a cycle, which lifted edges can make", () => {
    const layout = layoutLevel(
      spec(2, [
        [0, 1],
        [1, 0],
      ]),
      noNested,
    );
    expect(overlaps(layout, 2)).toBe(0);
  });
});

describe("ranks", () => {
  it("are lengths of longest paths", () => {
    expect([...longestPathRanks(4, Int32Array.of(0, 1, 0, 2), Int32Array.of(1, 2, 2, 3))]).toEqual([
      0, 1, 2, 3,
    ]);
  });

  it("tell a residual from an edge that only comes from far above", () => {
    // 0 → 1 → 2 → 3 with the residual 0 → 2, and 4 → 3 from the top.
    const from = Int32Array.of(0, 1, 2, 0, 4);
    const to = Int32Array.of(1, 2, 3, 2, 3);
    expect([...findSkips(5, from, to, longestPathRanks(5, from, to))]).toEqual([0, 0, 0, 1, 0]);
  });
});

describe("the plan", () => {
  it("lays out equal blocks once", () => {
    const tree = buildSingleTree(stackedModel(9));
    const plan = new LayoutPlan(tree, "side by side");
    const specs = plan.specsOf(() => true);
    expect(specs.size).toBe(11); // model, fold, nine blocks
    expect(plan.missing(specs.values())).toHaveLength(3);
  });

  it("has inner specs before those that hold them", () => {
    const plan = new LayoutPlan(buildSingleTree(residualModel()), "side by side");
    const specs = plan.missing(plan.specsOf(() => true).values());
    for (const { id, nested } of specs) for (const inner of nested) expect(inner).toBeLessThan(id);
  });

  it("lays out ahead what is closed, so that opening it leaves only what is around it", () => {
    const tree = buildSingleTree(stackedModel(9));
    const plan = new LayoutPlan(tree, "side by side");
    const layOut = (specs: LevelSpec[]) => {
      for (const each of specs)
        plan.layouts.set(
          each.id,
          layoutLevel(each, (id) => plan.layouts.get(id)!),
        );
    };
    const fold = tree.children(0)[0]!;
    const before = plan.specsOf((node) => node === 0 || node === fold);
    layOut(plan.missing(before.values()));
    const ahead = finishNow(plan.slicedAhead(before));
    expect(ahead).toHaveLength(1); // the nine blocks are equal
    layOut(ahead);
    const block = tree.children(fold)[4]!;
    const opened = plan.specsOf((node) => node === 0 || node === fold || node === block);
    expect(plan.missing(opened.values()).map(({ id }) => id)).toEqual([opened.get(fold), opened.get(0)]);
    expect(plan.layouts.get(opened.get(block)!)?.id).toBe(ahead[0]!.id);
  });
});
