import { beforeEach, describe, expect, it } from "vitest";
import type { TableColumn } from "./columns";
import { TableModel } from "./table_model";
import { toCsv, toMarkdown, toTsv } from "./table_text";

// A stage with a block of two leaves, then a second stage with one block.
const paths = ["layer1", "layer1.0", "layer1.0.conv1", "layer1.0.bn1", "layer2", "layer2.0"];
const parameters = [300, 300, 200, 100, 900, Number.NaN];
const levels = [1, 2, 3, 3, 1, 2];

const columns: TableColumn[] = [
  { id: "path", label: "module", width: 100, text: (row) => paths[row] ?? "" },
  {
    id: "parameters",
    label: "parameters",
    width: 80,
    align: "end",
    text: (row) => String(parameters[row]),
    number: (row) => parameters[row] ?? Number.NaN,
  },
];

describe("a table model", () => {
  let model: TableModel;
  beforeEach(() => {
    model = new TableModel({
      rowCount: 6,
      columns,
      grouping: { labels: ["layer1", "layer2"], groupOf: [0, 0, 0, 0, 1, 1] },
      parentOf: [-1, 0, 1, 1, -1, 4],
      shownAtRest: (row) => (levels[row] ?? 0) <= 2,
    });
  });

  it("shows stages and blocks below their group's heading", () => {
    expect([...model.items()]).toEqual([-1, 0, 1, -2, 4, 5]);
  });

  it("unfolds the leaves of a block in place", () => {
    expect(model.isExpandable(1)).toBe(true);
    expect(model.isExpandable(0)).toBe(false);
    model.toggleRow(1);
    expect([...model.items()]).toEqual([-1, 0, 1, 2, 3, -2, 4, 5]);
    model.toggleRow(1);
    expect([...model.items()]).toEqual([-1, 0, 1, -2, 4, 5]);
  });

  it("collapses a group but keeps its heading", () => {
    model.toggleGroup(0);
    expect([...model.items()]).toEqual([-1, -2, 4, 5]);
    expect([...model.rows()]).toEqual([0, 1, 4, 5]);
  });

  it("searches folded rows as well, every word in any column of words", () => {
    model.setSearch("CONV layer1.0");
    expect([...model.items()]).toEqual([2]);
    expect(model.isAlone(2)).toBe(true);
  });

  it("filters by column and by a condition from outside at once", () => {
    model.setFilter("parameters", ">= 300");
    expect([...model.rows()]).toEqual([0, 1, 4]);
    model.setPredicate((row) => row !== 1);
    expect([...model.rows()]).toEqual([0, 4]);
  });

  it("is one list without headings while it is sorted", () => {
    model.setSort({ column: "parameters", descending: true });
    expect([...model.items()]).toEqual([4, 0, 1, 5]);
    model.setSort(null);
    expect([...model.items()]).toEqual([-1, 0, 1, -2, 4, 5]);
  });

  it("reveals a folded row in a collapsed group", () => {
    model.toggleGroup(0);
    expect(model.reveal(3)).toBe(true);
    expect([...model.items()]).toEqual([-1, 0, 1, 2, 3, -2, 4, 5]);
  });

  it("says when a filter keeps a row from being revealed", () => {
    model.setFilter("path", "layer2");
    expect(model.reveal(3)).toBe(false);
  });

  it("counts how deep a row is nested", () => {
    expect([0, 1, 2].map((row) => model.depth(row))).toEqual([0, 1, 2]);
  });
});

describe("a table as text", () => {
  it("is Markdown with escaped bars and aligned numbers", () => {
    const bars: TableColumn[] = [{ id: "a", label: "a|b", width: 1, text: () => "x|y" }, columns[1]!];
    expect(toMarkdown(bars, [0])).toBe("| a\\|b | parameters |\n| --- | ---: |\n| x\\|y | 300 |\n");
  });

  it("is TSV without stray tabs", () => {
    const tabs: TableColumn[] = [{ id: "a", label: "a", width: 1, text: () => "x\ty" }];
    expect(toTsv(tabs, [0])).toBe("a\nx y\n");
  });

  it("is CSV with exact numbers and blanks for unknown ones", () => {
    const quoted: TableColumn[] = [
      { id: "a", label: "a", width: 1, text: () => 'say "hi", ok' },
      columns[1]!,
    ];
    expect(toCsv(quoted, [0, 5])).toBe('a,parameters\r\n"say ""hi"", ok",300\r\n"say ""hi"", ok",\r\n');
  });
});
