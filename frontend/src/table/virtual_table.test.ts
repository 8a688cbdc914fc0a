import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { TableColumn } from "./columns";
import { TableModel } from "./table_model";
import { VirtualTable } from "./virtual_table";

const columns: TableColumn[] = [
  { id: "name", label: "name", width: 100, text: (row) => `row ${row}` },
  { id: "size", label: "size", width: 100, text: (row) => String(row), number: (row) => row },
];

/** An element with a size: the test's document has no layout. */
function sizedElement(): HTMLElement {
  const element = document.createElement("div");
  for (const property of ["offsetHeight", "clientHeight"]) {
    Object.defineProperty(element, property, { value: 280 });
  }
  document.body.append(element);
  return element;
}

describe("a virtual table of 100,000 rows", () => {
  let element: HTMLElement;
  let table: VirtualTable;
  const onSelect = vi.fn();
  const onActivate = vi.fn();
  const press = (key: string, more: KeyboardEventInit = {}) =>
    element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
  const active = () => document.getElementById(element.getAttribute("aria-activedescendant") ?? "");
  const shownRows = () => [...element.querySelectorAll<HTMLElement>(".grid-body .grid-row:not([hidden])")];

  beforeEach(() => {
    element = sizedElement();
    table = new VirtualTable(element, new TableModel({ rowCount: 100_000, columns }), {
      label: "numbers",
      onSelect,
      onActivate,
    });
  });

  afterEach(() => {
    table.destroy();
    element.remove();
    vi.clearAllMocks();
  });

  it("keeps a few rows in the document and says how many there are", () => {
    expect(element.getAttribute("aria-rowcount")).toBe("100002");
    expect(shownRows().length).toBeGreaterThan(5);
    expect(shownRows().length).toBeLessThan(40);
    expect(shownRows()[0]?.getAttribute("aria-rowindex")).toBe("3");
  });

  it("moves the active cell with the keyboard and opens its row", () => {
    press("ArrowDown");
    press("ArrowDown");
    press("ArrowRight");
    expect(active()?.textContent).toBe("2");
    expect(onSelect).toHaveBeenLastCalledWith(2);
    press("Enter");
    expect(onActivate).toHaveBeenCalledWith(2);
    press("Home", { ctrlKey: true });
    expect(active()?.textContent).toBe("row 0");
  });

  it("sorts largest first on the first click of a number's header, then smallest, then not at all", () => {
    const click = () => element.querySelector<HTMLElement>('[data-column="size"]')?.click();
    const first = () => shownRows().find((row) => row.dataset.index === "0")?.firstElementChild?.textContent;
    const sort = () => element.querySelectorAll("[role=columnheader]")[1]?.getAttribute("aria-sort");
    click();
    expect([first(), sort()]).toEqual(["row 99999", "descending"]);
    click();
    expect([first(), sort()]).toEqual(["row 0", "ascending"]);
    click();
    expect([first(), sort()]).toEqual(["row 0", "none"]);
  });

  it("filters while someone types, without touching what they typed", () => {
    const input = element.querySelectorAll<HTMLInputElement>(".grid-filters input")[1]!;
    input.value = "< 3";
    input.dispatchEvent(new Event("input"));
    expect(element.getAttribute("aria-rowcount")).toBe("5");
    expect(element.querySelectorAll<HTMLInputElement>(".grid-filters input")[1]).toBe(input);
  });

  it("leaves the elements of rows that stay where they are while one scrolls", () => {
    const scrollTo = (row: number) => {
      element.scrollTop = 28 * row;
      element.dispatchEvent(new Event("scroll"));
    };
    scrollTo(100);
    const before = shownRows();
    const cells = before.map((row) => row.firstElementChild?.firstChild);
    scrollTo(103);
    const after = shownRows();
    expect(after.map((row) => Number(row.dataset.index))).toEqual(
      after.map((_, position) => Number(after[0]?.dataset.index) + position),
    );
    expect(after.slice(0, -3)).toEqual(before.slice(3));
    expect(after.slice(-3)).toEqual(before.slice(0, 3));
    expect(cells).toContain(after.at(-1)?.firstElementChild?.firstChild);
    expect(after.at(-1)?.firstElementChild?.textContent).toBe(`row ${after.at(-1)?.dataset.index}`);
  });
});
