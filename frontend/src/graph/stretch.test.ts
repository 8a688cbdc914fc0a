import { describe, expect, it } from "vitest";
import { type LevelLayout, type LevelSpec, layoutLevel, type Placed } from "./level_layout";

/** A level of `count` children; `open` maps children to the sizes of what is opened in them. */
function laidOut(
  count: number,
  edges: [number, number][],
  open: Record<number, [width: number, height: number]>,
  closed = new Map<number, Placed>(),
): LevelLayout {
  const spec: LevelSpec = {
    id: 0,
    outline: 0,
    widths: new Float32Array(count).fill(100),
    heights: new Float32Array(count).fill(40),
    nested: Int32Array.from({ length: count }, (_, child) => (child in open ? child : -1)),
    inPorts: 0,
    outPorts: 0,
    portWidths: new Float32Array(0),
    portHeight: 0,
    from: Int32Array.from(edges, ([from]) => from),
    to: Int32Array.from(edges, ([, to]) => to),
    sides: new Uint8Array(edges.length).fill(1),
    labelWidths: new Float32Array(edges.length).fill(50),
    headerHeight: 28,
  };
  return layoutLevel(spec, (id) => ({ width: open[id]![0], height: open[id]![1] }), closed);
}

const middle = ({ x, w }: LevelLayout, node: number) => x[node]! + w[node]! / 2;
const isAbove = (layout: LevelLayout, a: number, b: number) => layout.y[a]! + layout.h[a]! <= layout.y[b]!;

/** 0 → 1, 2, 3 → 4, and 0 → 4 past them. */
const FAN: [number, number][] = [
  [0, 1],
  [0, 2],
  [0, 3],
  [1, 4],
  [2, 4],
  [3, 4],
  [0, 4],
];

describe("a level in which something is opened", () => {
  it("has room for it: nothing overlaps", () => {
    for (const open of [{ 2: [700, 900] }, { 1: [300, 200], 3: [500, 50] }, { 0: [900, 300] }] as const) {
      const layout = laidOut(5, FAN, open as unknown as Record<number, [number, number]>);
      for (let a = 0; a < 5; a++) {
        for (let b = a + 1; b < 5; b++) {
          const beside =
            layout.x[a]! + layout.w[a]! <= layout.x[b]! || layout.x[b]! + layout.w[b]! <= layout.x[a]!;
          expect(beside || isAbove(layout, a, b) || isAbove(layout, b, a)).toBe(true);
        }
      }
    }
  });

  it("keeps layers and their order", () => {
    const before = laidOut(5, FAN, {});
    const after = laidOut(5, FAN, { 2: [700, 900] });
    const order = (layout: LevelLayout) => [1, 2, 3].sort((a, b) => layout.x[a]! - layout.x[b]!);
    expect(order(after)).toEqual(order(before));
    expect(isAbove(after, 0, 2) && isAbove(after, 2, 4)).toBe(true);
  });

  it("keeps a chain straight", () => {
    const chain: [number, number][] = [
      [0, 1],
      [1, 2],
      [2, 3],
    ];
    const layout = laidOut(4, chain, { 1: [500, 800], 2: [260, 90] });
    for (const node of [1, 2, 3]) expect(middle(layout, node)).toBeCloseTo(middle(layout, 0), 3);
    expect(layout.h[1]).toBe(800);
  });

  it("leads lines to the borders of what has grown", () => {
    const layout = laidOut(5, FAN, { 2: [700, 900] });
    FAN.forEach(([from, to], edge) => {
      const [first, last] = [layout.starts[edge]!, layout.starts[edge + 1]! - 1];
      expect(layout.points[2 * first + 1]).toBeCloseTo(layout.y[from]! + layout.h[from]!, 2);
      expect(layout.points[2 * last + 1]).toBeCloseTo(layout.y[to]!, 2);
    });
  });

  it("is drawn from the closed drawing, which is made once", () => {
    const closed = new Map<number, Placed>();
    laidOut(5, FAN, { 2: [700, 900] }, closed);
    const kept = closed.get(0)!;
    const before = structuredClone(kept);
    laidOut(5, FAN, { 1: [10, 10], 3: [400, 400] }, closed);
    expect(closed.get(0)).toBe(kept);
    expect(kept).toEqual(before);
  });
});
