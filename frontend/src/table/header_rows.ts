import type { SortOrder, TableColumn } from "./columns";
import type { TableModel } from "./table_model";

/** The sticky top of a grid: a row of sort buttons and a row of column filters. */
export class HeaderRows {
  /** Rows of the grid that this header takes. */
  static readonly COUNT = 2;
  readonly element: HTMLElement;
  private readonly titles: HTMLElement;
  private readonly filters: HTMLElement;
  private drawnFor = "";

  constructor(private readonly onChange: () => void) {
    this.element = div("grid-head", "rowgroup");
    this.titles = div("grid-row grid-titles", "row");
    this.titles.setAttribute("aria-rowindex", "1");
    this.filters = div("grid-row grid-filters", "row");
    this.filters.setAttribute("aria-rowindex", "2");
    this.element.append(this.titles, this.filters);
  }

  draw(model: TableModel, columns: readonly TableColumn[]): void {
    this.titles.replaceChildren(
      ...columns.map((column, position) => this.titleCell(model, column, position)),
    );
    const signature = columns.map((column) => column.id).join(" ");
    if (signature !== this.drawnFor || this.filters.children.length === 0) {
      this.filters.replaceChildren(...columns.map((column, position) => this.filterCell(column, position)));
      this.drawnFor = signature;
    }
    columns.forEach((column, position) => {
      const input = this.filters.children[position]?.querySelector("input");
      if (input === null || input === undefined) return;
      // The model may have been exchanged; while someone types, their text stays.
      input.oninput = () => {
        model.setFilter(column.id, input.value);
        input.classList.toggle("is-set", input.value !== "");
        this.onChange();
      };
      if (input !== document.activeElement) input.value = model.filter(column.id);
      input.classList.toggle("is-set", input.value !== "");
    });
  }

  private titleCell(model: TableModel, column: TableColumn, position: number): HTMLElement {
    const cell = div("grid-cell grid-title", "columnheader");
    cell.setAttribute("aria-colindex", String(position + 1));
    const order = model.sortOrder?.column === column.id ? model.sortOrder : null;
    cell.setAttribute("aria-sort", order === null ? "none" : order.descending ? "descending" : "ascending");
    if (column.align === "end") cell.classList.add("is-end");
    const button = document.createElement("button");
    button.type = "button";
    button.title = column.title ?? `Sort by ${column.label}`;
    button.textContent = column.label;
    if (order !== null) button.append(order.descending ? " ↓" : " ↑");
    button.dataset.column = column.id;
    button.addEventListener("click", () => {
      model.setSort(nextOrder(model.sortOrder, column));
      this.onChange();
      this.titles.querySelector<HTMLElement>(`[data-column="${CSS.escape(column.id)}"]`)?.focus();
    });
    cell.append(button);
    return cell;
  }

  private filterCell(column: TableColumn, position: number): HTMLElement {
    const cell = div("grid-cell", "gridcell");
    cell.setAttribute("aria-colindex", String(position + 1));
    const input = document.createElement("input");
    input.type = "search";
    input.spellcheck = false;
    input.placeholder = column.filterHint ?? (column.number === undefined ? "filter" : "> 1M");
    input.setAttribute("aria-label", `Filter ${column.label}`);
    input.title =
      column.number === undefined
        ? "Words that must occur; !word must not; =text is equality"
        : "A comparison such as > 1.5M, <= 0.5, = 768";
    cell.append(input);
    return cell;
  }
}

/** First click: the order in which one usually looks (large numbers first); then the reverse; then none. */
export function nextOrder(current: SortOrder | null, column: TableColumn): SortOrder | null {
  const startsDescending = column.number !== undefined;
  if (current?.column !== column.id) return { column: column.id, descending: startsDescending };
  return current.descending === startsDescending
    ? { column: column.id, descending: !startsDescending }
    : null;
}

function div(className: string, role: string): HTMLElement {
  const element = document.createElement("div");
  element.className = className;
  element.setAttribute("role", role);
  return element;
}
