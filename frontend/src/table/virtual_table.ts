import type { TableColumn } from "./columns";
import { HeaderRows } from "./header_rows";
import { prepareOrders } from "./idle_orders";
import { RowWindow } from "./row_window";
import type { TableModel } from "./table_model";

export const ROW_HEIGHT = 28;

export interface VirtualTableOptions {
  readonly label: string;
  /** The row under the cursor changed (arrow keys, click). */
  onSelect?(row: number): void;
  /** A row was opened (Enter, click). */
  onActivate?(row: number): void;
  /** Sorting, a filter or the set of unfolded rows changed through the table itself. */
  onChange?(): void;
  /** Further classes of a row's element, e.g. its verdict. */
  rowClass?(row: number): string;
}

let tables = 0;

/**
 * A table of any number of rows as an accessible grid: only the rows in view are in the document.
 *
 * The element given becomes the scrolling grid. One cell is active; arrow keys, Home, End, Page Up and Page Down move
 * it, Enter opens its row, Space unfolds it.
 */
export class VirtualTable {
  private readonly activeId = `active-cell-${++tables}`;
  private readonly header: HeaderRows;
  private readonly body: HTMLElement;
  private readonly holder: HTMLElement;
  private readonly window: RowWindow;
  private readonly drawn = new Map<number, HTMLElement>();
  private readonly pool: HTMLElement[] = [];
  private visibleColumns: readonly TableColumn[];
  private activeItem = 0;
  private activeColumn = 0;
  private selectedRow = -1;
  private drawing = "";
  private stopPreparing: () => void = () => {};
  private prepared = "";

  constructor(
    private readonly element: HTMLElement,
    private model: TableModel,
    private readonly options: VirtualTableOptions,
  ) {
    this.visibleColumns = model.columns;
    element.classList.add("grid");
    element.setAttribute("role", "grid");
    element.setAttribute("aria-label", options.label);
    element.tabIndex = 0;
    this.header = new HeaderRows(() => this.applyChange());
    this.body = document.createElement("div");
    this.body.className = "grid-body";
    this.body.setAttribute("role", "rowgroup");
    this.holder = document.createElement("div");
    this.holder.className = "grid-holder";
    this.holder.setAttribute("role", "presentation");
    this.body.append(this.holder);
    element.replaceChildren(this.header.element, this.body);
    this.window = new RowWindow(
      element,
      ROW_HEIGHT,
      () => this.header.element.offsetHeight,
      () => this.draw(),
    );
    element.addEventListener("keydown", this.onKeyDown);
    this.body.addEventListener("click", this.onClick);
    this.refresh();
  }

  /** Shows another model in the same place. */
  setModel(model: TableModel): void {
    if (model === this.model) return;
    const ids = new Set(this.visibleColumns.map((column) => column.id));
    this.model = model;
    this.visibleColumns = model.columns.filter((column) => ids.has(column.id));
    if (this.visibleColumns.length === 0) this.visibleColumns = model.columns;
    this.activeItem = 0;
    this.drawing = "";
    this.prepared = "";
    this.refresh();
  }

  setVisibleColumns(ids: ReadonlySet<string>): void {
    this.visibleColumns = this.model.columns.filter((column) => ids.has(column.id));
    this.activeColumn = Math.min(this.activeColumn, Math.max(0, this.visibleColumns.length - 1));
    this.refresh();
  }

  /** Draws again if the model changed. */
  refresh(): void {
    const drawing = `${this.model.revision} ${this.visibleColumns.map(({ id }) => id).join(" ")}`;
    if (drawing === this.drawing) return;
    this.drawing = drawing;
    const items = this.model.items();
    this.element.style.setProperty("--grid-columns", this.visibleColumns.map(columnTrack).join(" "));
    this.element.style.setProperty(
      "--grid-width",
      `${this.visibleColumns.reduce((sum, { width }) => sum + width, 0)}px`,
    );
    this.element.setAttribute("aria-rowcount", String(items.length + HeaderRows.COUNT));
    this.element.setAttribute("aria-colcount", String(this.visibleColumns.length));
    this.header.draw(this.model, this.visibleColumns);
    this.activeItem = Math.max(0, Math.min(this.activeItem, items.length - 1));
    this.body.style.height = `${items.length * ROW_HEIGHT}px`;
    this.recycleAll();
    this.window.setCount(items.length);
    this.draw();
    this.prepareSorting();
  }

  /** The order of each column shown is computed while nobody waits for it. */
  private prepareSorting(): void {
    const columns = this.visibleColumns.map(({ id }) => id).join();
    if (columns === this.prepared) return;
    this.prepared = columns;
    this.stopPreparing();
    this.stopPreparing = prepareOrders(this.model, this.visibleColumns);
  }

  /** Marks a row and brings it into view; false when the filters hide it. */
  select(row: number): boolean {
    const index = row < 0 ? -1 : this.model.itemIndexOf(row);
    if (row === this.selectedRow && this.drawn.has(index)) return true;
    this.selectedRow = row;
    if (index >= 0) {
      this.activeItem = index;
      this.window.scrollTo(index, this.drawn.has(index) ? "auto" : "center");
    }
    this.recycleAll();
    this.draw();
    return index >= 0;
  }

  focus(): void {
    this.element.focus({ preventScroll: true });
  }

  destroy(): void {
    this.stopPreparing();
    this.window.destroy();
    this.element.removeEventListener("keydown", this.onKeyDown);
    this.element.replaceChildren();
  }

  private applyChange(): void {
    this.refresh();
    this.options.onChange?.();
  }

  private recycleAll(): void {
    for (const element of this.drawn.values()) {
      element.hidden = true;
      this.pool.push(element);
    }
    this.drawn.clear();
  }

  private draw(): void {
    const items = this.model.items();
    const visible = this.window.visible().filter((index) => index < items.length);
    const wanted = new Set(visible);
    for (const [index, element] of this.drawn) {
      if (wanted.has(index)) continue;
      this.drawn.delete(index);
      element.hidden = true;
      this.pool.push(element);
    }
    for (const index of wanted) {
      const item = items[index];
      if (item === undefined || this.drawn.has(index)) continue;
      const element = this.pool.pop() ?? document.createElement("div");
      this.drawRow(element, index, item);
      this.drawn.set(index, element);
    }
    // What was not used again would be read by searches of the page.
    for (const element of this.pool.splice(0)) element.remove();
    this.place(visible);
    this.markActive();
  }

  /**
   * Rows follow one another, and only what holds them is moved. A position of its own for each row would fill the
   * browser's cache of computed styles while one scrolls, and drawing would take longer and longer.
   */
  private place(visible: readonly number[]): void {
    this.holder.style.transform = `translateY(${(visible[0] ?? 0) * ROW_HEIGHT}px)`;
    let next = this.holder.firstElementChild;
    for (const index of visible) {
      const element = this.drawn.get(index);
      if (element === undefined) continue;
      if (element === next) next = next.nextElementSibling;
      else this.holder.insertBefore(element, next);
    }
  }

  private drawRow(element: HTMLElement, index: number, item: number): void {
    element.hidden = false;
    element.setAttribute("role", "row");
    element.setAttribute("aria-rowindex", String(index + HeaderRows.COUNT + 1));
    element.dataset.item = String(item);
    element.dataset.index = String(index);
    if (item < 0) this.drawGroup(element, -item - 1);
    else this.drawCells(element, item);
  }

  private drawCells(element: HTMLElement, row: number): void {
    const isSelected = row === this.selectedRow;
    const marks = [
      "grid-row",
      isSelected ? "is-selected" : "",
      this.model.isAlone(row) ? "is-alone" : "",
      this.options.rowClass?.(row) ?? "",
    ];
    element.className = marks.filter(Boolean).join(" ");
    element.setAttribute("aria-selected", String(isSelected));
    this.visibleColumns.forEach((column, position) => {
      const cell = this.cellAt(element, position);
      cell.className = cellClass(column);
      cell.removeAttribute("aria-colspan");
      cell.style.gridColumn = "";
      delete cell.dataset.tip;
      if (column.render === undefined) {
        const text = column.text(row);
        // A cell that clips its beginning runs right to left; the text itself must not.
        if (column.keepsEnd) cell.replaceChildren(leftToRight(text));
        else cell.textContent = text;
        // About 7 pixels a character: what may not fit is shown in full on hover.
        if (text.length * 7 > column.width - 16) cell.dataset.tip = text;
      } else column.render(cell, row);
    });
    this.trimCells(element, this.visibleColumns.length);
  }

  private drawGroup(element: HTMLElement, group: number): void {
    const collapsed = this.model.isGroupCollapsed(group);
    element.className = "grid-row is-group";
    element.removeAttribute("aria-selected");
    const spanned = this.visibleColumns.findIndex((column) => column.groupText !== undefined);
    const span = spanned <= 0 ? this.visibleColumns.length : spanned;
    const heading = this.cellAt(element, 0);
    heading.className = "grid-cell grid-heading";
    heading.style.gridColumn = `1 / span ${span}`;
    heading.setAttribute("aria-colspan", String(span));
    delete heading.dataset.tip;
    const toggle = document.createElement("button");
    toggle.type = "button";
    toggle.tabIndex = -1;
    toggle.className = "grid-toggle";
    toggle.setAttribute("aria-expanded", String(!collapsed));
    toggle.textContent = `${collapsed ? "▸" : "▾"} ${this.model.grouping?.labels[group] ?? ""}`;
    heading.replaceChildren(toggle);
    let position = 1;
    for (const column of this.visibleColumns.slice(span)) {
      const cell = this.cellAt(element, position++);
      cell.className = cellClass(column);
      cell.removeAttribute("aria-colspan");
      cell.style.gridColumn = "";
      cell.textContent = column.groupText?.(group) ?? "";
      delete cell.dataset.tip;
    }
    this.trimCells(element, position);
  }

  private cellAt(row: HTMLElement, position: number): HTMLElement {
    const existing = row.children[position] as HTMLElement | undefined;
    const cell = existing ?? row.appendChild(document.createElement("div"));
    cell.setAttribute("role", "gridcell");
    cell.setAttribute("aria-colindex", String(position + 1));
    return cell;
  }

  private trimCells(row: HTMLElement, count: number): void {
    while (row.children.length > count) row.lastElementChild?.remove();
  }

  private markActive(): void {
    for (const cell of this.body.querySelectorAll(".is-active")) {
      cell.classList.remove("is-active");
      cell.removeAttribute("id");
    }
    const row = this.drawn.get(this.activeItem);
    const cell = row?.children[Math.min(this.activeColumn, row.children.length - 1)];
    if (cell === undefined) this.element.removeAttribute("aria-activedescendant");
    else {
      cell.classList.add("is-active");
      cell.id = this.activeId;
      this.element.setAttribute("aria-activedescendant", this.activeId);
    }
  }

  private moveTo(index: number, column: number): void {
    const items = this.model.items();
    if (items.length === 0) return;
    this.activeItem = Math.max(0, Math.min(index, items.length - 1));
    this.activeColumn = Math.max(0, Math.min(column, this.visibleColumns.length - 1));
    this.window.scrollTo(this.activeItem);
    this.draw();
    this.drawn
      .get(this.activeItem)
      ?.children[this.activeColumn]?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    const item = items[this.activeItem] ?? -1;
    if (item >= 0 && item !== this.selectedRow) this.choose(item);
  }

  private choose(row: number): void {
    this.selectedRow = row;
    for (const element of this.drawn.values()) {
      const isSelected = element.dataset.item === String(row);
      element.classList.toggle("is-selected", isSelected);
      if (!element.classList.contains("is-group")) element.setAttribute("aria-selected", String(isSelected));
    }
    this.options.onSelect?.(row);
  }

  private toggle(item: number): void {
    if (item < 0) this.model.toggleGroup(-item - 1);
    else if (this.model.isExpandable(item)) this.model.toggleRow(item);
    else return;
    this.applyChange();
  }

  private readonly onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== this.element || event.altKey) return;
    const item = this.model.items()[this.activeItem] ?? -1;
    const page = this.window.pageSize;
    const isFar = event.ctrlKey || event.metaKey;
    const lastColumn = this.visibleColumns.length - 1;
    switch (event.key) {
      case "ArrowDown":
        this.moveTo(this.activeItem + 1, this.activeColumn);
        break;
      case "ArrowUp":
        this.moveTo(this.activeItem - 1, this.activeColumn);
        break;
      case "ArrowRight":
        this.moveTo(this.activeItem, this.activeColumn + 1);
        break;
      case "ArrowLeft":
        this.moveTo(this.activeItem, this.activeColumn - 1);
        break;
      case "PageDown":
        this.moveTo(this.activeItem + page, this.activeColumn);
        break;
      case "PageUp":
        this.moveTo(this.activeItem - page, this.activeColumn);
        break;
      case "Home":
        this.moveTo(isFar ? 0 : this.activeItem, 0);
        break;
      case "End":
        this.moveTo(isFar ? Number.MAX_SAFE_INTEGER : this.activeItem, lastColumn);
        break;
      case " ":
        this.toggle(item);
        break;
      case "Enter":
        if (item < 0) this.toggle(item);
        else this.options.onActivate?.(item);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  private readonly onClick = (event: MouseEvent): void => {
    const target = event.target as HTMLElement;
    const row = target.closest<HTMLElement>(".grid-row");
    if (row === null) return;
    const item = Number(row.dataset.item);
    this.activeItem = Number(row.dataset.index);
    const cell = target.closest<HTMLElement>(".grid-cell");
    this.activeColumn = cell === null ? 0 : Array.prototype.indexOf.call(row.children, cell);
    if (item < 0 || target.closest(".grid-toggle") !== null) this.toggle(item);
    else {
      this.choose(item);
      this.options.onActivate?.(item);
    }
    this.markActive();
  };
}

function columnTrack(column: TableColumn): string {
  return column.grow ? `minmax(${column.width}px, ${column.grow}fr)` : `${column.width}px`;
}

function cellClass(column: TableColumn): string {
  return `grid-cell${column.align === "end" ? " is-end" : ""}${column.monospace ? " is-mono" : ""}${column.keepsEnd ? " keeps-end" : ""}`;
}

function leftToRight(text: string): HTMLElement {
  const element = document.createElement("bdi");
  element.dir = "ltr";
  element.textContent = text;
  return element;
}
