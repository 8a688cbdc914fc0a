import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { SortOrder, TableColumn } from "../../table/columns";
import { TableModel } from "../../table/table_model";
import { Resource } from "../../ui/resource";
import type { Session } from "../../ui/session";
import { fetchAudit } from "../../wire/audit";
import { auditColumns, usualColumns } from "./audit_columns";
import { AuditRows, LEVELS } from "./audit_rows";
import { tableWidth } from "./available_width";
import type { MeasuredColumns } from "./measured_columns";
import { measuredColumn } from "./measured_names";
import { VERDICTS } from "./verdicts";

/** An audit, and the table that shows it. */
export interface AuditTable {
  readonly rows: AuditRows;
  readonly model: TableModel;
}

/** What a colleague sees when they open the address: filters, order, columns, the chosen row. */
export class AuditState {
  readonly audit = new Resource<AuditTable>();
  readonly find: Signal<string>;
  readonly verdicts: ReadonlySignal<ReadonlySet<string>>;
  /** Whether a row has one of the verdicts chosen; null when none is. */
  private readonly verdictTest: ReadonlySignal<((row: number) => boolean) | null>;
  readonly columns: ReadonlySignal<ReadonlySet<string>>;
  /** Deepest level shown at rest: 1 stages, 2 blocks, 3 leaves. */
  readonly level: ReadonlySignal<number>;
  readonly selected = signal(-1);
  readonly drawerOpen: Signal<string>;
  readonly findingsFolded: Signal<string>;
  /** The measured quantity that the table is coloured by; "" for none. */
  readonly colour: Signal<string>;
  /** The step of the measurements that are shown; "" for the latest. */
  readonly measuredStep: Signal<string>;
  /** What was measured of the models, once something was found and its code is loaded. */
  readonly measured = signal<MeasuredColumns | null>(null);
  /** Counts changes of the table's model, which is a plain object. */
  readonly version = signal(0);
  /** Counts the times someone asked to try again. */
  private readonly attempt = signal(0);
  private readonly levelText: Signal<string>;
  private readonly verdictText: Signal<string>;
  private readonly columnText: Signal<string>;
  private readonly sortText: Signal<string>;
  private readonly filterText: Signal<string>;
  private readonly shownLevel = new WeakMap<TableModel, number>();

  constructor(readonly session: Session) {
    const { url } = session;
    this.find = url.text("find");
    this.levelText = url.text("level");
    this.verdictText = url.text("verdict");
    this.columnText = url.text("columns");
    this.sortText = url.text("sort");
    this.filterText = url.text("filter");
    this.drawerOpen = url.text("drawer");
    this.findingsFolded = url.text("findings");
    this.colour = url.text("colour");
    this.measuredStep = url.text("mstep");
    this.verdicts = computed(() => new Set(this.verdictText.value.split(",").filter(Boolean)));
    this.verdictTest = computed(() => {
      const rows = this.audit.value?.rows;
      const wanted = new Set(
        VERDICTS.filter((style) => this.verdicts.value.has(style.id)).map((style) => style.verdict),
      );
      return rows === undefined || wanted.size === 0
        ? null
        : (row) => rows.isCounted(row) && wanted.has(rows.verdict(row));
    });
    this.columns = computed(() => {
      const chosen =
        this.columnText.value === ""
          ? usualColumns(this.audit.value?.rows, tableWidth.value)
          : new Set(this.columnText.value.split(","));
      const name = this.colour.value;
      if (!name) return chosen;
      return new Set([...chosen, measuredColumn("teacher", name), measuredColumn("student", name)]);
    });
    this.level = computed(() => {
      const level = LEVELS.indexOf(this.levelText.value as (typeof LEVELS)[number]);
      return level > 0 ? level : (this.audit.value?.rows.defaultLevel() ?? 2);
    });
    this.loadWhenSidesChange();
    this.filterWhenStateChanges();
    this.followSelection();
    this.followMeasurements();
  }

  setLevel(level: number): void {
    this.levelText.value = LEVELS[level] ?? "";
  }

  toggleVerdict(id: string): void {
    const verdicts = new Set(this.verdicts.value);
    if (!verdicts.delete(id)) verdicts.add(id);
    this.verdictText.value = VERDICTS.filter((style) => verdicts.has(style.id))
      .map((style) => style.id)
      .join(",");
  }

  /** Reads again what could not be read. */
  retry(): void {
    this.attempt.value++;
  }

  toggleColumn(id: string): void {
    const columns = new Set(this.columns.value);
    if (!columns.delete(id)) columns.add(id);
    if (columns.size > 0) this.columnText.value = [...columns].join(",");
  }

  resetColumns(): void {
    this.columnText.value = "";
  }

  /** Lifts every filter, and the order. */
  showAll(): void {
    batch(() => {
      this.find.value = "";
      this.verdictText.value = "";
      this.filterText.value = "";
      this.sortText.value = "";
    });
  }

  select(row: number): void {
    const rows = this.audit.value?.rows;
    if (rows === undefined) return;
    batch(() => {
      this.selected.value = row;
      this.session.at.value = rows.place(row);
    });
  }

  /** Selects a row and lifts whatever hides it. */
  jumpTo(row: number): void {
    const table = this.audit.value;
    if (table === undefined) return;
    if (!table.model.reveal(row)) {
      this.showAll();
      table.model.reveal(row);
    }
    batch(() => {
      this.select(row);
      this.drawerOpen.value = "1";
      this.version.value++;
    });
  }

  /** Takes over what was changed in the table itself: sort buttons and filter fields. */
  readFromTable(): void {
    const model = this.audit.value?.model;
    if (model === undefined) return;
    const { sortOrder } = model;
    const filters = model.columns
      .map((column) => [column.id, model.filter(column.id)] as const)
      .filter(([, expression]) => expression !== "");
    batch(() => {
      this.sortText.value =
        sortOrder === null ? "" : `${sortOrder.column}:${sortOrder.descending ? "down" : "up"}`;
      this.filterText.value = filters.length === 0 ? "" : JSON.stringify(Object.fromEntries(filters));
      this.version.value++;
    });
  }

  /**
   * Rows of each verdict at the level shown, whatever else is filtered: at the level of blocks the numbers of the
   * sentence above.
   */
  verdictCounts(): Map<string, number> {
    const counts = new Map(VERDICTS.map((style) => [style.id, 0]));
    const rows = this.audit.value?.rows;
    const byVerdict = new Map(VERDICTS.map((style) => [style.verdict as number, style.id]));
    for (let row = 0; row < (rows?.count ?? 0); row++) {
      if (rows === undefined || rows.level(row) > this.level.value || !rows.isCounted(row)) continue;
      const id = byVerdict.get(rows.verdict(row)) ?? "";
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  }

  private loadWhenSidesChange(): void {
    const { teacher, student, intent } = this.session;
    // As text, so that reading the list of records again does not compare the same two records again.
    const wanted = computed(() =>
      JSON.stringify([teacher.value?.address, student.value?.address, intent.value]),
    );
    effect(() => {
      void this.attempt.value;
      const [t, s, how] = JSON.parse(wanted.value);
      if (!t || !s) this.audit.clear();
      else
        void this.audit.load("Comparing teacher and student", async (abort) => {
          const rows = new AuditRows(await fetchAudit(t, s, how, abort));
          return { rows, model: this.makeModel(rows) };
        });
    });
  }

  private makeModel(rows: AuditRows): TableModel {
    let model: TableModel | null = null;
    model = new TableModel({
      rowCount: rows.count,
      columns: withMeasured(
        auditColumns(rows, () => model),
        this.measured.peek()?.columns(rows) ?? [],
      ),
      grouping: { labels: rows.stages.map((stage) => stage || "(model)"), groupOf: rows.stageOf },
      parentOf: rows.parentOf,
      shownAtRest: (row) => rows.level(row) <= 2,
    });
    return model;
  }

  private filterWhenStateChanges(): void {
    effect(() => {
      const table = this.audit.value;
      const level = this.level.value;
      const find = this.find.value;
      const verdictTest = this.verdictTest.value;
      const columns = this.columns.value;
      const sort = parseSort(this.sortText.value);
      const filters = parseFilters(this.filterText.value);
      if (table === undefined) return;
      const { model, rows } = table;
      if (this.shownLevel.get(model) !== level) {
        // Only a change of level folds what was unfolded by hand.
        this.shownLevel.set(model, level);
        model.setShownAtRest((row) => rows.level(row) <= level);
      }
      model.setSearch(find);
      model.setSearchedColumns(columns);
      model.setPredicate(verdictTest);
      model.setSort(sort);
      for (const column of model.columns) model.setFilter(column.id, filters[column.id] ?? "");
      this.version.value = this.version.peek() + 1;
    });
  }

  /** Loads what shows measurements when there are some; the table then has columns for them, whose values follow. */
  private followMeasurements(): void {
    effect(() => {
      const { records, teacher, student } = this.session;
      const sides = [teacher.value, student.value].map(
        (side) => `${side?.choice.run}\0${side?.choice.model}`,
      );
      const isMeasured = records.value?.measurements.some(({ run, model }) =>
        sides.includes(`${run}\0${model}`),
      );
      if (!isMeasured || !this.audit.value || this.measured.peek()) return;
      void import("./measured_columns").then(({ MeasuredColumns }) => {
        this.measured.value ??= new MeasuredColumns(this);
      });
    });
    effect(() => {
      // The theme is in the colours.
      void this.session.dark.value;
      if (!this.measured.value?.state.quantities.value.length) return;
      const { value, ...state } = this.audit.state.peek();
      if (value)
        this.audit.state.value = { ...state, value: { rows: value.rows, model: this.makeModel(value.rows) } };
    });
    effect(() => {
      const names = [...(this.measured.value?.state.shown.value.keys() ?? [])];
      void this.colour.value;
      const model = this.audit.state.peek().value?.model;
      if (!model || !names.length) return;
      model.valuesChanged(
        names.flatMap((name) => [measuredColumn("teacher", name), measuredColumn("student", name)]),
      );
      this.version.value = this.version.peek() + 1;
    });
  }

  private followSelection(): void {
    effect(() => {
      const table = this.audit.value;
      const place = this.session.at.value;
      if (table === undefined) return;
      if (table.rows.place(this.selected.peek()) === place && this.selected.peek() < table.rows.count) return;
      const row = table.rows.rowAt(place);
      if (row >= 0) table.model.reveal(row);
      batch(() => {
        this.selected.value = row;
        this.version.value = this.version.peek() + 1;
      });
    });
  }
}

/** Measured values stand beside the modules they are of, where they are in view. */
function withMeasured(columns: TableColumn[], measured: TableColumn[]): TableColumn[] {
  const at = columns.findIndex(({ id }) => id === "student_shape") + 1;
  return [...columns.slice(0, at), ...measured, ...columns.slice(at)];
}

function parseSort(text: string): SortOrder | null {
  const match = /^(.+):(up|down)$/.exec(text);
  return match === null ? null : { column: match[1] ?? "", descending: match[2] === "down" };
}

function parseFilters(text: string): Record<string, string> {
  try {
    const value: unknown = text === "" ? {} : JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, string>) : {};
  } catch {
    return {};
  }
}
