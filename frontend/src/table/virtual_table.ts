import { ColumnWidths } from "./column_widths";
import type { TableColumn } from "./columns";
import { HeaderRows } from "./header_rows";
import { prepareOrders } from "./idle_orders";
import { RowView } from "./row_view";
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
  private readonly widths: ColumnWidths;
  private readonly drawn = new Map<number, RowView>();
  private readonly pool: RowView[] = [];
  private readonly views = new WeakMap<Element, RowView>();
  private activeCell: HTMLElement | undefined;
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
    this.widths = new ColumnWidths(element, () => {
      this.recycleAll();
      this.draw();
    });
    this.window = new RowWindow(
      element,
      ROW_HEIGHT,
      () => this.header.element.offsetHeight,
      () => this.draw(),
    );
    element.addEventListener("keydown", this.onKeyDown);
    element.addEventListener("scroll", this.onScroll, { passive: true });
    this.body.addEventListener("click", this.onClick);
    this.body.addEventListener("pointerover", this.onPointerOver);
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
    this.widths.show(this.visibleColumns);
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
    this.widths.destroy();
    this.element.removeEventListener("keydown", this.onKeyDown);
    this.element.removeEventListener("scroll", this.onScroll);
    this.element.replaceChildren();
  }

  private applyChange(): void {
    this.refresh();
    this.options.onChange?.();
  }

  private recycleAll(): void {
    this.pool.push(...this.takeFromDrawn(() => true));
  }

  /** Rows that are no longer where they were, from top to bottom. */
  private takeFromDrawn(isTaken: (index: number) => boolean): RowView[] {
    const taken = [...this.drawn.values()].filter(({ index }) => isTaken(index));
    for (const { index } of taken) this.drawn.delete(index);
    return taken.sort((a, b) => a.index - b.index);
  }

  /**
   * Rows follow one another, and only what holds them is placed: a position of its own for each row would fill the
   * browser's cache of computed styles while one scrolls. It is placed by its edge, not by a transform, so that a row
   * that stays is where it was to the browser, which then paints nothing but the new rows.
   */
  private draw(): void {
    const items = this.model.items();
    const { first, end } = this.window;
    this.pool.push(...this.takeFromDrawn((index) => index < first || index >= end));
    // Rows that stay are not touched; the others go above or below them. When none stays, the pool is still in the
    // order of the document, and no element needs to move.
    let stays = first;
    while (stays < end && !this.drawn.has(stays)) stays++;
    const anchor = this.drawn.get(stays)?.element;
    for (let index = first; index < end; index++) {
      const item = items[index];
      if (item === undefined || this.drawn.has(index)) continue;
      const reused = this.pool.shift();
      const view = reused ?? new RowView();
      view.draw(index, item, this.model, this.visibleColumns, this.widths.limits);
      this.markRow(view);
      this.drawn.set(index, view);
      if (anchor !== undefined && index < stays) anchor.before(view.element);
      else if (anchor !== undefined || reused === undefined) this.holder.append(view.element);
      this.views.set(view.element, view);
    }
    // What was not used again would be read by searches of the page.
    for (const { element } of this.pool.splice(0)) element.remove();
    this.holder.style.top = `${first * ROW_HEIGHT}px`;
    this.markActive();
  }

  private markRow(view: RowView): void {
    const { item } = view;
    if (item < 0) {
      view.mark("grid-row is-group", null);
      return;
    }
    const isSelected = item === this.selectedRow;
    const marks = [
      "grid-row",
      isSelected ? "is-selected" : "",
      this.model.isAlone(item) ? "is-alone" : "",
      this.options.rowClass?.(item) ?? "",
    ];
    view.mark(marks.filter(Boolean).join(" "), isSelected);
  }

  private markActive(): void {
    const cell = this.drawn.get(this.activeItem)?.cell(this.activeColumn);
    if (cell === this.activeCell && cell?.id === this.activeId) return;
    this.activeCell?.classList.remove("is-active");
    this.activeCell?.removeAttribute("id");
    this.activeCell = cell;
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
    this.activeCell?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
    const item = items[this.activeItem] ?? -1;
    if (item >= 0 && item !== this.selectedRow) this.choose(item);
  }

  private choose(row: number): void {
    this.selectedRow = row;
    for (const view of this.drawn.values()) this.markRow(view);
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
    const view = this.viewOf(target);
    if (view === undefined) return;
    const { item } = view;
    this.activeItem = view.index;
    this.activeColumn = view.positionOf(target);
    if (item < 0 || target.closest(".grid-toggle") !== null) this.toggle(item);
    else {
      this.choose(item);
      this.options.onActivate?.(item);
    }
    this.markActive();
  };

  /** A tip is made when the pointer comes: most cells are never pointed at. */
  private readonly onPointerOver = (event: PointerEvent): void => {
    const view = this.viewOf(event.target as HTMLElement);
    view?.explain(view.positionOf(event.target as HTMLElement), this.visibleColumns);
  };

  private readonly onScroll = (): void => {
    this.element.classList.toggle("is-shifted", this.element.scrollLeft > 0);
  };

  private viewOf(target: HTMLElement): RowView | undefined {
    const row = target.closest<HTMLElement>(".grid-row");
    return row === null ? undefined : this.views.get(row);
  }
}
