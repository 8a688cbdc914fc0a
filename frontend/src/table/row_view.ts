import type { TableColumn } from "./columns";
import { HeaderRows } from "./header_rows";
import type { TableModel } from "./table_model";

interface Cell {
  readonly element: HTMLElement;
  /** The text of a cell that has nothing else; null where the column draws the cell itself. */
  readonly text: Text | null;
  isLong: boolean;
}

/**
 * The element of one row, which shows another row when the table scrolls.
 *
 * Its cells and their text nodes stay, and only what differs is written: to the browser a new text node is a new box to
 * lay out, which takes twice as long as an old one with another text.
 */
export class RowView {
  readonly element: HTMLElement;
  /** Position among the items of the table. */
  index = -1;
  /** Row (≥ 0) or group (−group − 1). */
  item = 0;
  private cells: Cell[] = [];
  /** What the cells were made for. */
  private madeFor: readonly TableColumn[] = [];
  private isHeading = false;
  private className = "";
  /** The cell whose tip is of the row shown. */
  private explained: HTMLElement | null = null;

  constructor() {
    this.element = document.createElement("div");
    this.element.setAttribute("role", "row");
  }

  /** `limits` are the characters of each column that surely fit. */
  draw(
    index: number,
    item: number,
    model: TableModel,
    columns: readonly TableColumn[],
    limits: readonly number[],
  ): void {
    if (index !== this.index) {
      this.element.setAttribute("aria-rowindex", String(index + HeaderRows.COUNT + 1));
      this.element.dataset.index = String(index);
    }
    this.index = index;
    this.item = item;
    delete this.explained?.dataset.tip;
    this.explained = null;
    if (item < 0) this.drawGroup(-item - 1, model, columns);
    else this.drawCells(item, columns, limits);
  }

  /** Classes of the row's element, and whether it is selected; a heading never is. */
  mark(className: string, isSelected: boolean | null): void {
    const whole = `${className} ${isSelected}`;
    if (whole === this.className) return;
    this.className = whole;
    this.element.className = className;
    if (isSelected === null) this.element.removeAttribute("aria-selected");
    else this.element.setAttribute("aria-selected", String(isSelected));
  }

  cell(position: number): HTMLElement | undefined {
    return this.cells[Math.min(position, this.cells.length - 1)]?.element;
  }

  /** Position of the cell that contains `target`; 0 for none. */
  positionOf(target: Element): number {
    return Math.max(
      0,
      this.cells.findIndex(({ element }) => element.contains(target)),
    );
  }

  /** Writes what hovering over a cell says, for cells that do not say it themselves. */
  explain(position: number, columns: readonly TableColumn[]): void {
    const column = columns[position];
    const cell = this.cells[position];
    if (this.item < 0 || column === undefined || cell === undefined || column.render !== undefined) return;
    const tip = column.tip?.(this.item) ?? (cell.isLong ? column.text(this.item) : "");
    if (tip === "") return;
    cell.element.dataset.tip = tip;
    this.explained = cell.element;
  }

  private drawCells(row: number, columns: readonly TableColumn[], limits: readonly number[]): void {
    if (columns !== this.madeFor || this.isHeading) this.make(columns, false, columns.map(makeCell));
    columns.forEach((column, position) => {
      const cell = this.cells[position];
      if (cell === undefined) return;
      if (cell.text === null) {
        column.render?.(cell.element, row);
        return;
      }
      const text = column.text(row);
      write(cell.text, text);
      const isLong = text.length > (limits[position] ?? 0);
      if (isLong === cell.isLong) return;
      cell.isLong = isLong;
      cell.element.classList.toggle("is-long", isLong);
    });
  }

  private drawGroup(group: number, model: TableModel, columns: readonly TableColumn[]): void {
    const spanned = columns.findIndex((column) => column.groupText !== undefined);
    const span = spanned <= 0 ? columns.length : spanned;
    const rest = columns.slice(span);
    if (columns !== this.madeFor || !this.isHeading) {
      const cells = rest.map((column) => makeCell({ ...column, render: undefined, keepsEnd: false }));
      this.make(columns, true, [makeHeading(span), ...cells]);
    }
    const isCollapsed = model.isGroupCollapsed(group);
    const [heading, ...cells] = this.cells;
    if (heading?.text)
      write(heading.text, `${isCollapsed ? "▸" : "▾"} ${model.grouping?.labels[group] ?? ""}`);
    heading?.element.firstElementChild?.setAttribute("aria-expanded", String(!isCollapsed));
    rest.forEach((column, position) => {
      const text = cells[position]?.text;
      if (text) write(text, column.groupText?.(group) ?? "");
    });
  }

  private make(columns: readonly TableColumn[], isHeading: boolean, cells: Cell[]): void {
    this.madeFor = columns;
    this.isHeading = isHeading;
    this.cells = cells;
    cells.forEach(({ element }, position) => {
      element.setAttribute("aria-colindex", String(position + 1));
    });
    this.element.replaceChildren(...cells.map(({ element }) => element));
  }
}

function write(node: Text, text: string): void {
  if (node.data !== text) node.data = text;
}

function makeCell(
  column: Omit<TableColumn, "render"> & { render?: TableColumn["render"] | undefined },
): Cell {
  const element = document.createElement("div");
  element.setAttribute("role", "gridcell");
  element.className = [
    "grid-cell",
    column.align === "end" ? "is-end" : "",
    column.monospace ? "is-mono" : "",
    column.keepsEnd ? "keeps-end" : "",
  ]
    .filter(Boolean)
    .join(" ");
  if (column.render !== undefined) {
    element.classList.add("is-long");
    return { element, text: null, isLong: true };
  }
  const text = document.createTextNode("");
  if (column.keepsEnd) {
    // A cell that clips its beginning runs right to left; the text itself must not.
    const inner = document.createElement("bdi");
    inner.dir = "ltr";
    inner.append(text);
    element.append(inner);
  } else element.append(text);
  return { element, text, isLong: false };
}

function makeHeading(span: number): Cell {
  const element = document.createElement("div");
  element.setAttribute("role", "gridcell");
  element.className = "grid-cell grid-heading is-long";
  element.style.gridColumn = `1 / span ${span}`;
  element.setAttribute("aria-colspan", String(span));
  const toggle = document.createElement("button");
  toggle.type = "button";
  toggle.tabIndex = -1;
  toggle.className = "grid-toggle";
  const text = document.createTextNode("");
  toggle.append(text);
  element.append(toggle);
  return { element, text, isLong: false };
}
