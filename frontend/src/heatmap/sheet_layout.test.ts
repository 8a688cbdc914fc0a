import { describe, expect, it } from "vitest";
import { SheetLayout } from "./sheet_layout";

describe("a sheet of 3 layers with 4, 4 and 2 heads", () => {
  const layout = new SheetLayout([4, 4, 2], 10, 20, 2);

  it("has room for the longest row", () => {
    expect([layout.width, layout.height]).toEqual([68, 36]);
  });

  it("finds the thumbnail under the pointer, and none between", () => {
    expect(layout.at(20 + 12 + 5, 12 + 5)).toEqual({ row: 1, column: 1 });
    expect(layout.at(20 + 11, 5)).toBeNull();
    expect(layout.at(10, 5)).toBeNull();
    expect(layout.at(20 + 2 * 12 + 5, 24 + 5)).toBeNull();
  });

  it("moves with the arrow keys and stays inside shorter rows", () => {
    expect(layout.move({ row: 1, column: 3 }, "ArrowDown")).toEqual({ row: 2, column: 1 });
    expect(layout.move({ row: 0, column: 0 }, "ArrowLeft")).toEqual({ row: 0, column: 0 });
    expect(layout.move({ row: 2, column: 0 }, "End")).toEqual({ row: 2, column: 1 });
    expect(layout.move({ row: 2, column: 0 }, "q")).toBeNull();
  });

  it("chooses a size at which the longest row fits, within limits", () => {
    expect(SheetLayout.fit(12, 620, 20, { min: 12, max: 64 })).toBe(48);
    expect(SheetLayout.fit(2, 620, 20, { min: 12, max: 64 })).toBe(64);
    expect(SheetLayout.fit(100, 620, 20, { min: 12, max: 64 })).toBe(12);
  });
});
