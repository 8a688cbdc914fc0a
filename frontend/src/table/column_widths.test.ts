import { describe, expect, it } from "vitest";
import { columnWidths } from "./column_widths";
import type { TableColumn } from "./columns";

function column(width: number, grow?: number): TableColumn {
  return { id: "", label: "", width, text: () => "", ...(grow === undefined ? {} : { grow }) };
}

describe("widths of columns", () => {
  it("gives what is left to those that grow, by their shares, and to the last pixel", () => {
    expect(columnWidths([column(60), column(200, 2), column(100, 1)], 460)).toEqual([60, 266, 134]);
  });

  it("keeps the preferred widths where there is too little space", () => {
    expect(columnWidths([column(60), column(200, 2)], 100)).toEqual([60, 200]);
  });

  it("leaves space unused when no column grows", () => {
    expect(columnWidths([column(60)], 100)).toEqual([60]);
  });
});
