import { describe, expect, it } from "vitest";
import { insideMatrix, overlap, pixelsOf, scaled, wholePositions } from "./matrix_window";

const box = (x: number, y: number, width: number, height: number) => ({ x, y, width, height });

describe("parts of a matrix", () => {
  it("meet, or do not", () => {
    expect(overlap(box(0, 0, 10, 10), box(5, 8, 10, 10))).toEqual(box(5, 8, 5, 2));
    expect(overlap(box(0, 0, 10, 10), box(10, 0, 5, 5))).toBeNull();
  });
  it("become pixels without a gap between neighbours", () => {
    const view = box(0, 0, 3, 3);
    const left = pixelsOf(box(0, 0, 1, 3), view, 100, 100);
    const right = pixelsOf(box(1, 0, 2, 3), view, 100, 100);
    expect(left.x + left.width).toBe(right.x);
    expect(right.x + right.width).toBe(100);
  });
  it("are counted in the cells of a coarser matrix", () => {
    expect(scaled(box(512, 1024, 256, 512), 64 / 4096, 64 / 4096)).toEqual(box(8, 16, 4, 8));
  });
  it("are asked for in whole positions, with a margin inside the matrix", () => {
    expect(wholePositions(box(10.5, 0, 10, 10), 0.5, 100, 100)).toEqual(box(5, 0, 21, 15));
  });
  it("that come from an address are cut to the matrix", () => {
    expect(insideMatrix(box(90, -5, 50, 2), 100, 100)).toEqual(box(50, 0, 50, 4));
  });
});
