/** A column of a table whose rows are numbered 0 … rowCount − 1; the column knows how to read each row. */
export interface TableColumn {
  /** Stable name: used in addresses, filters and downloads. */
  readonly id: string;
  readonly label: string;
  /** Longer explanation, shown on hover of the header. */
  readonly title?: string;
  /** Preferred width in CSS pixels. */
  readonly width: number;
  /** Share of the space that is left over; 0 keeps the width. */
  readonly grow?: number;
  readonly align?: "start" | "end";
  readonly monospace?: boolean;
  /** Texts that are too long lose their beginning, not their end: of a path the end tells most. */
  readonly keepsEnd?: boolean;
  /** Example of a filter, shown while the field is empty. */
  readonly filterHint?: string;
  /** What a person reads in the cell; searched, filtered and copied. */
  text(row: number): string;
  /** Present for numeric columns: the value to sort and to compare in filters; NaN when unknown. */
  number?(row: number): number;
  /** What stands in this column of a group's heading; columns before the first of these hold the group's name. */
  groupText?(group: number): string;
  /** What hovering over a cell says; by default its whole text where that may not fit. Not for columns that draw. */
  tip?(row: number): string;
  /** Draws the cell; the default writes `text(row)`. Must replace whatever the cell held before. */
  render?(cell: HTMLElement, row: number): void;
}

/** How the rows are ordered; null is the order in which they came. */
export interface SortOrder {
  readonly column: string;
  readonly descending: boolean;
}

/** The wanted columns without those of `expendable`, in its order, for which `space` pixels do not suffice. */
export function columnsThatFit(
  columns: readonly TableColumn[],
  wanted: ReadonlySet<string>,
  expendable: readonly string[],
  space: number,
): ReadonlySet<string> {
  const kept = new Set(wanted);
  const width = () => columns.reduce((sum, column) => sum + (kept.has(column.id) ? column.width : 0), 0);
  for (const id of expendable) {
    if (width() <= space) break;
    kept.delete(id);
  }
  return kept;
}
