import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { TableModel } from "../../table/table_model";
import { Resource } from "../../ui/resource";
import type { Session } from "../../ui/session";
import { fetchStructure } from "../../wire/structure";
import { EDGES, windowWidth } from "./available_width";
import { OperatorRows, operatorColumns, usualOperatorColumns } from "./operator_rows";

export interface OperatorTable {
  readonly rows: OperatorRows;
  readonly model: TableModel;
}

/** The operator table of a single model. */
export class OperatorState {
  readonly operators = new Resource<OperatorTable>();
  readonly find: Signal<string>;
  /** "1": only operators that give a shape that they were not given. */
  readonly changesOnly: Signal<string>;
  readonly columns: ReadonlySignal<ReadonlySet<string>>;
  readonly selected = signal(-1);
  readonly drawerOpen: Signal<string>;
  readonly version = signal(0);
  /** Counts the times someone asked to try again. */
  private readonly attempt = signal(0);
  private readonly columnText: Signal<string>;

  constructor(private readonly session: Session) {
    this.find = session.url.text("operator");
    this.changesOnly = session.url.text("changes");
    this.columnText = session.url.text("operator_columns");
    this.drawerOpen = session.url.text("operator_drawer");
    this.columns = computed(() =>
      this.columnText.value === ""
        ? usualOperatorColumns(this.operators.value?.rows, windowWidth.value - EDGES)
        : new Set(this.columnText.value.split(",")),
    );
    const wanted = computed(() => {
      const teacher = session.teacher.value;
      return teacher === null || session.student.value !== null ? "" : JSON.stringify(teacher.address);
    });
    effect(() => {
      void this.attempt.value;
      if (wanted.value === "") this.operators.clear();
      else {
        const address = JSON.parse(wanted.value);
        void this.operators.load("Reading the operators", async (abort) => {
          const rows = new OperatorRows(await fetchStructure(address, abort));
          const model = new TableModel({
            rowCount: rows.count,
            columns: operatorColumns(rows),
            grouping: { labels: rows.stages, groupOf: rows.stageOf },
          });
          return { rows, model };
        });
      }
    });
    effect(() => {
      const table = this.operators.value;
      const find = this.find.value;
      const changesOnly = this.changesOnly.value !== "";
      if (table === undefined) return;
      table.model.setSearch(find);
      table.model.setPredicate(changesOnly ? (row) => table.rows.changesShape(row) : null);
      this.version.value = this.version.peek() + 1;
    });
    effect(() => {
      const table = this.operators.value;
      const place = this.session.at.value;
      if (table === undefined) return;
      const current = this.selected.peek();
      if (current >= 0 && current < table.rows.count && `T:${table.rows.path(current)}` === place) return;
      this.selected.value = table.rows.rowAt(place);
    });
  }

  select(row: number): void {
    const table = this.operators.value;
    if (table === undefined) return;
    batch(() => {
      this.selected.value = row;
      this.session.at.value = row < 0 ? "" : `T:${table.rows.path(row)}`;
    });
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
}
