import { computed } from "@preact/signals";
import type { TableColumn } from "../../table/columns";
import type { MeasuredScale } from "../../ui/measured_scale";
import { MeasuredState } from "../../ui/measured_state";
import type { MeasuredQuantity } from "../../wire/measured";
import type { AuditRows, SideName } from "./audit_rows";
import type { AuditState } from "./audit_state";
import { measuredColumn, measuredNames } from "./measured_names";

const LETTERS: Readonly<Record<SideName, string>> = { teacher: "T", student: "S" };

/** What was measured of the modules, as columns of the audit table: teacher | student, at one step. */
export class MeasuredColumns {
  readonly state: MeasuredState;

  constructor(private readonly audit: AuditState) {
    const wanted = computed(() => {
      const names = measuredNames(audit.columns.value);
      const colour = audit.colour.value;
      return colour && !names.includes(colour) ? [...names, colour] : names;
    });
    this.state = new MeasuredState(audit.session, wanted, audit.measuredStep);
  }

  /** The quantity whose steps are gone through: the one that colours, else the first that is shown. */
  get leading(): string {
    return this.audit.colour.value || (measuredNames(this.audit.columns.value)[0] ?? "");
  }

  /** To the step before or after; false when nothing measured is shown. */
  moveStep(by: number): boolean {
    if (!this.leading) return false;
    this.state.moveStep(this.leading, by);
    return true;
  }

  /** Two columns for each quantity; cells without a value stay empty. */
  columns(rows: AuditRows): TableColumn[] {
    return this.state.quantities.peek().flatMap((quantity) => {
      // Made anew with the table: a theme or a range that changes makes another.
      let scale: MeasuredScale | null = null;
      const scaleOf = () => {
        scale ??= this.state.scaleOf(quantity);
        return scale;
      };
      return (["teacher", "student"] as const).map((side) => this.column(rows, quantity, side, scaleOf));
    });
  }

  private column(
    rows: AuditRows,
    quantity: MeasuredQuantity,
    side: SideName,
    scaleOf: () => MeasuredScale,
  ): TableColumn {
    const value = (row: number) => this.value(rows, quantity.name, side, row);
    const isCategory = quantity.scale === "category";
    return {
      id: measuredColumn(side, quantity.name),
      label: `${LETTERS[side]} ${quantity.label}`,
      title: quantity.meaning ? `${quantity.meaning} (${side})` : `${quantity.label} of the ${side}`,
      width: Math.max(84, 7 * (quantity.label.length + 3)),
      align: isCategory ? "start" : "end",
      filterHint: isCategory ? "filter" : "> 0",
      text: (row) => scaleOf().text(value(row)),
      ...(isCategory ? {} : { number: value }),
      render: (cell, row) => {
        const found = value(row);
        const fill = this.audit.colour.peek() === quantity.name ? scaleOf().fill(found) : null;
        cell.textContent = scaleOf().text(found);
        cell.style.background = fill ?? "";
        const step = this.state.shown.peek().get(quantity.name)?.[side]?.step;
        if (Number.isNaN(found)) delete cell.dataset.tip;
        else
          cell.dataset.tip = `${quantity.label} ${isCategory ? scaleOf().text(found) : found} at step ${step}`;
      },
    };
  }

  /** NaN where nothing was measured. */
  private value(rows: AuditRows, name: string, side: SideName, row: number): number {
    if (!rows.hasSide(side, row)) return Number.NaN;
    return this.state.shown.peek().get(name)?.[side]?.values.get(rows.path(side, row)) ?? Number.NaN;
  }
}
