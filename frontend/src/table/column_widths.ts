import type { TableColumn } from "./columns";

/**
 * The width of each column in whole pixels, for all rows at once: rows that had to work out their own from shares of the
 * space would each be laid out in two passes.
 */
export class ColumnWidths {
  private columns: readonly TableColumn[] = [];
  private readonly observer: ResizeObserver | null;

  constructor(private readonly element: HTMLElement) {
    this.observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => this.apply());
    this.observer?.observe(element);
  }

  show(columns: readonly TableColumn[]): void {
    this.columns = columns;
    this.apply();
  }

  destroy(): void {
    this.observer?.disconnect();
  }

  private apply(): void {
    const widths = columnWidths(this.columns, this.element.clientWidth);
    const { style } = this.element;
    style.setProperty("--grid-columns", widths.map((width) => `${width}px`).join(" "));
    style.setProperty("--grid-width", `${widths.reduce((sum, width) => sum + width, 0)}px`);
  }
}

/** Each column as wide as it prefers; what is left of `space` goes to those that grow, by their shares. */
export function columnWidths(columns: readonly TableColumn[], space: number): number[] {
  const left = Math.max(0, space - columns.reduce((sum, { width }) => sum + width, 0));
  const shares = columns.reduce((sum, { grow }) => sum + (grow ?? 0), 0);
  let given = 0;
  let passed = 0;
  return columns.map(({ width, grow }) => {
    passed += grow ?? 0;
    const end = shares > 0 ? Math.floor((left * passed) / shares) : 0;
    const more = end - given;
    given = end;
    return width + more;
  });
}
