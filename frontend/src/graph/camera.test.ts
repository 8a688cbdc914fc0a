import { describe, expect, it } from "vitest";
import { Camera } from "./camera";

function camera(width = 800, height = 600): Camera {
  const made = new Camera();
  made.width = width;
  made.height = height;
  return made;
}

describe("the camera", () => {
  it("keeps what is under the pointer when it zooms", () => {
    const view = camera();
    const before = view.toWorld(300, 200);
    view.zoom(1.7, 300, 200);
    const after = view.toWorld(300, 200);
    expect(after[0]).toBeCloseTo(before[0], 9);
    expect(after[1]).toBeCloseTo(before[1], 9);
  });

  it("shows the top of a graph that is too tall to be readable as a whole", () => {
    const view = camera();
    view.fit({ x: 0, y: 0, width: 400, height: 100_000 });
    expect(view.scale).toBeGreaterThan(0.5);
    expect(view.y).toBeLessThan(0);
    expect(view.y).toBeGreaterThan(-100);
  });

  it("shows a tall graph beside what covers the right edge, as far as there is room", () => {
    const tall = (width: number) => ({ x: 0, y: 0, width, height: 100_000 });
    const rightEdge = (width: number, covered: number) => {
      const view = camera();
      view.fit(tall(width), 24, 1, covered);
      return view.width - (width - view.x) * view.scale;
    };
    // Drawn at 0.7, the smallest readable scale.
    expect(rightEdge(1000, 0)).toBeCloseTo(50, 6);
    expect(rightEdge(1000, 120)).toBeCloseTo(76, 6);
    expect(rightEdge(900, 120)).toBeCloseTo(120, 6);
    expect(rightEdge(500, 120)).toBeCloseTo(225, 6);
  });

  it("does not move to reveal what is visible", () => {
    const view = camera();
    view.reveal({ x: 300, y: 200, width: 100, height: 40 });
    expect([view.x, view.y]).toEqual([0, 0]);
    view.reveal({ x: 300, y: 900, width: 100, height: 40 });
    expect(view.x).toBe(0);
    expect(view.view().y + view.view().height).toBeCloseTo(980, 6);
  });
});
