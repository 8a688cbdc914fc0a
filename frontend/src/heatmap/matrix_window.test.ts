import { describe, expect, it } from "vitest";
import { labelPositions, moveWindow, revealCell, wholeMatrix, zoomWindow } from "./matrix_window";

describe("a window on a matrix of 100 rows and 200 columns", () => {
  const whole = wholeMatrix(100, 200);

  it("zooms around the pointer", () => {
    expect(zoomWindow(whole, 2, 0.5, 0.5, 100, 200)).toEqual({ x: 50, y: 25, width: 100, height: 50 });
    expect(zoomWindow(whole, 2, 1, 0, 100, 200)).toEqual({ x: 100, y: 0, width: 100, height: 50 });
  });

  it("never shows more than the matrix, nor less than a few cells", () => {
    expect(zoomWindow(whole, 0.1, 0.3, 0.3, 100, 200)).toEqual(whole);
    expect(zoomWindow(whole, 1e6, 0, 0, 100, 200)).toEqual({ x: 0, y: 0, width: 4, height: 4 });
  });

  it("stops at the edges", () => {
    const part = { x: 50, y: 25, width: 100, height: 50 };
    expect(moveWindow(part, 500, -500, 100, 200)).toEqual({ x: 100, y: 0, width: 100, height: 50 });
  });

  it("moves as little as needed to show a cell", () => {
    const part = { x: 50, y: 25, width: 100, height: 50 };
    expect(revealCell(part, 30, 60, 100, 200)).toEqual(part);
    expect(revealCell(part, 80, 10, 100, 200)).toEqual({ x: 10, y: 31, width: 100, height: 50 });
  });
});

describe("labels of an axis", () => {
  it("are all shown when there is room", () => {
    expect(labelPositions(0, 5, 100, 12)).toEqual([0, 1, 2, 3, 4]);
  });

  it("are thinned to round steps", () => {
    expect(labelPositions(0, 100, 120, 12)).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    expect(labelPositions(37.5, 30, 120, 12)).toEqual([40, 45, 50, 55, 60, 65]);
  });
});
