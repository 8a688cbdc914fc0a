import type { SortOrder, TableColumn } from "./columns";
import { type CellTest, compileFilter } from "./filter_expression";
import { type Ranks, rankNumbers, rankTexts, rankTextsInSteps, sortRows } from "./index_sort";

/** Groups of consecutive meaning (stages); a row belongs to exactly one. */
export interface Grouping {
  readonly labels: readonly string[];
  /** Group of each row. */
  readonly groupOf: ArrayLike<number>;
}

export interface TableModelOptions {
  readonly rowCount: number;
  readonly columns: readonly TableColumn[];
  readonly grouping?: Grouping;
  /** Row under which each row is nested, −1 for none. A row follows its parent. */
  readonly parentOf?: ArrayLike<number>;
  /** Rows that are shown at rest; the others appear below an expanded parent or as search results. */
  readonly shownAtRest?: (row: number) => boolean;
}

/**
 * Which rows a table shows, and in which order. Rows stay where they are: filters and sorts produce a list of items,
 * where an item ≥ 0 is a row and an item < 0 is the heading of group −item − 1.
 */
export class TableModel {
  readonly rowCount: number;
  readonly columns: readonly TableColumn[];
  readonly grouping: Grouping | null;
  private readonly parentOf: ArrayLike<number> | null;
  /** Per row, how many of its direct children are folded away at rest. */
  private foldedChildren: Uint32Array;
  private shownAtRest: (row: number) => boolean;
  private predicate: ((row: number) => boolean) | null = null;
  private search = "";
  private readonly filters = new Map<string, string>();
  private sort: SortOrder | null = null;
  private readonly collapsedGroups = new Set<number>();
  private readonly expandedRows = new Set<number>();
  private groupSizes = new Map<number, number>();
  private cachedItems: Int32Array | null = null;
  private cachedRows: Uint32Array | null = null;
  private readonly textCache = new Map<string, string[]>();
  private readonly rankCache = new Map<string, Ranks>();
  private searched: readonly TableColumn[];
  private changes = 0;

  constructor(options: TableModelOptions) {
    this.rowCount = options.rowCount;
    this.columns = options.columns;
    this.searched = options.columns.filter(isSearchable);
    this.grouping = options.grouping ?? null;
    this.parentOf = options.parentOf ?? null;
    this.shownAtRest = options.shownAtRest ?? (() => true);
    this.foldedChildren = this.countFoldedChildren();
  }

  column(id: string): TableColumn | undefined {
    return this.columns.find((column) => column.id === id);
  }

  setShownAtRest(shown: (row: number) => boolean): void {
    this.shownAtRest = shown;
    this.expandedRows.clear();
    this.foldedChildren = this.countFoldedChildren();
    this.invalidate();
  }

  /** A condition from outside the table (chips); null lifts it. */
  setPredicate(predicate: ((row: number) => boolean) | null): void {
    if (predicate === this.predicate) return;
    this.predicate = predicate;
    this.invalidate();
  }

  setSearch(text: string): void {
    if (text.trim() === this.search) return;
    this.search = text.trim();
    this.invalidate();
  }

  /** The columns that a search looks into, those shown as a rule. */
  setSearchedColumns(ids: ReadonlySet<string>): void {
    const searched = this.columns.filter((column) => ids.has(column.id) && isSearchable(column));
    if (searched.map(({ id }) => id).join() === this.searched.map(({ id }) => id).join()) return;
    this.searched = searched;
    this.invalidate();
  }

  setFilter(column: string, expression: string): void {
    if (expression.trim() === this.filter(column).trim()) return;
    if (expression.trim() === "") this.filters.delete(column);
    else this.filters.set(column, expression);
    this.invalidate();
  }

  filter(column: string): string {
    return this.filters.get(column) ?? "";
  }

  setSort(order: SortOrder | null): void {
    if (order?.column === this.sort?.column && order?.descending === this.sort?.descending) return;
    this.sort = order;
    this.invalidate();
  }

  get sortOrder(): SortOrder | null {
    return this.sort;
  }

  /** Whether a row stands for its whole group, without a heading above it. */
  isAlone(row: number): boolean {
    if (this.grouping === null || this.sort !== null) return false;
    this.items();
    return this.groupSizes.get(this.grouping.groupOf[row] ?? 0) === 1;
  }

  /** Whether a search or a column filter is in force; both look at rows that are folded away, too. */
  get isSearching(): boolean {
    return this.search !== "" || this.filters.size > 0;
  }

  isGroupCollapsed(group: number): boolean {
    return this.collapsedGroups.has(group);
  }

  toggleGroup(group: number): void {
    if (!this.collapsedGroups.delete(group)) this.collapsedGroups.add(group);
    this.invalidate();
  }

  /** Whether a row has nested rows that are not shown at rest. */
  isExpandable(row: number): boolean {
    return (this.foldedChildren[row] ?? 0) > 0;
  }

  isExpanded(row: number): boolean {
    return this.expandedRows.has(row);
  }

  toggleRow(row: number): void {
    if (!this.expandedRows.delete(row)) this.expandedRows.add(row);
    this.invalidate();
  }

  /** Number of rows above a row in the nesting. */
  depth(row: number): number {
    let depth = 0;
    for (let parent = this.parent(row); parent >= 0; parent = this.parent(parent)) depth++;
    return depth;
  }

  /** Opens whatever hides a row; false when a filter excludes it. */
  reveal(row: number): boolean {
    if (row < 0 || row >= this.rowCount) return false;
    for (let parent = this.parent(row); parent >= 0; parent = this.parent(parent))
      this.expandedRows.add(parent);
    if (this.grouping !== null) this.collapsedGroups.delete(this.grouping.groupOf[row] ?? 0);
    this.invalidate();
    return this.itemIndexOf(row) >= 0;
  }

  /** Position of a row among the items, −1 when it is not shown. */
  itemIndexOf(row: number): number {
    return this.items().indexOf(row);
  }

  /** Rows that pass every filter, in order, whether or not their group is collapsed. */
  rows(): Uint32Array {
    this.cachedRows ??= this.selectRows();
    return this.cachedRows;
  }

  /** Rows and group headings as displayed. */
  items(): Int32Array {
    this.cachedItems ??= this.arrangeItems();
    return this.cachedItems;
  }

  private parent(row: number): number {
    return this.parentOf?.[row] ?? -1;
  }

  private countFoldedChildren(): Uint32Array {
    const counts = new Uint32Array(this.rowCount);
    for (let row = 0; row < this.rowCount; row++) {
      const parent = this.parent(row);
      if (parent >= 0 && !this.shownAtRest(row)) counts[parent] = (counts[parent] ?? 0) + 1;
    }
    return counts;
  }

  /** Grows with every change of what is shown. */
  get revision(): number {
    return this.changes;
  }

  /** Cells of some columns hold other values now, e.g. those of another training step. */
  valuesChanged(columns: Iterable<string>): void {
    for (const id of columns) {
      this.textCache.delete(id);
      this.rankCache.delete(id);
    }
    this.invalidate();
  }

  private invalidate(): void {
    this.changes++;
    this.cachedItems = null;
    this.cachedRows = null;
  }

  private selectRows(): Uint32Array {
    const tests = this.compileTests();
    const selected = new Uint32Array(this.rowCount);
    let count = 0;
    for (let row = 0; row < this.rowCount; row++) {
      if (!this.isSearching && !this.isUnfolded(row)) continue;
      if (this.predicate !== null && !this.predicate(row)) continue;
      if (tests.every((test) => test(row))) selected[count++] = row;
    }
    const rows = selected.slice(0, count);
    const column = this.sort === null ? undefined : this.column(this.sort.column);
    return column === undefined || this.sort === null
      ? rows
      : sortRows(rows, this.ranks(column), this.sort.descending);
  }

  private isUnfolded(row: number): boolean {
    if (this.shownAtRest(row)) return true;
    const parent = this.parent(row);
    return parent >= 0 && this.expandedRows.has(parent) && this.isUnfolded(parent);
  }

  private arrangeItems(): Int32Array {
    const rows = this.rows();
    const grouping = this.grouping;
    // A sorted table is one list: keeping the groups would hide what the sort was asked to find.
    if (grouping === null || this.sort !== null) return Int32Array.from(rows);
    const byGroup = new Map<number, number[]>();
    for (const row of rows) {
      const group = grouping.groupOf[row] ?? 0;
      const members = byGroup.get(group);
      if (members === undefined) byGroup.set(group, [row]);
      else members.push(row);
    }
    this.groupSizes = new Map([...byGroup].map(([group, members]) => [group, members.length]));
    const items: number[] = [];
    for (const [group, members] of byGroup) {
      // A group of one needs no heading: it would say the same twice.
      const [only] = members;
      if (members.length === 1 && only !== undefined) {
        items.push(only);
        continue;
      }
      items.push(-group - 1);
      if (!this.collapsedGroups.has(group)) for (const row of members) items.push(row);
    }
    return Int32Array.from(items);
  }

  private compileTests(): ((row: number) => boolean)[] {
    const tests: ((row: number) => boolean)[] = [];
    for (const [id, expression] of this.filters) {
      const column = this.column(id);
      const test = column === undefined ? null : compileFilter(expression, column.number !== undefined);
      if (column !== undefined && test !== null) tests.push(this.columnTest(column, test));
    }
    const words = this.search
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word !== "");
    for (const word of words) {
      const texts = this.searched.map((column) => this.loweredTexts(column));
      tests.push((row) => texts.some((column) => (column[row] ?? "").includes(word)));
    }
    return tests;
  }

  private columnTest(column: TableColumn, test: CellTest): (row: number) => boolean {
    return (row) => test(column.text(row), column.number?.(row) ?? Number.NaN);
  }

  private loweredTexts(column: TableColumn): readonly string[] {
    const cached = this.textCache.get(column.id);
    if (cached !== undefined) return cached;
    const texts = Array.from({ length: this.rowCount }, (_, row) => column.text(row).toLowerCase());
    this.textCache.set(column.id, texts);
    return texts;
  }

  /** Computes the order of a column in small steps, for when a person asks for it; a step is about a millisecond. */
  *prepareOrder(column: TableColumn | undefined): Generator<undefined, void> {
    if (column === undefined || this.rankCache.has(column.id)) return;
    if (column.number !== undefined) {
      this.ranks(column);
      return;
    }
    const texts: string[] = [];
    const ranks = yield* rankTextsInSteps(this.rowCount, (row) => {
      const text = column.text(row).toLowerCase();
      texts.push(text);
      return text;
    });
    this.textCache.set(column.id, texts);
    this.rankCache.set(column.id, ranks);
  }

  private ranks(column: TableColumn): Ranks {
    const cached = this.rankCache.get(column.id);
    if (cached !== undefined) return cached;
    const { number } = column;
    const ranks =
      number === undefined
        ? rankTexts(this.loweredTexts(column))
        : rankNumbers(Float64Array.from({ length: this.rowCount }, (_, row) => number(row)));
    this.rankCache.set(column.id, ranks);
    return ranks;
  }
}

/** Columns of words. Rounded numbers are found by column filters, which compare them. */
function isSearchable(column: TableColumn): boolean {
  return column.number === undefined || column.align !== "end";
}
