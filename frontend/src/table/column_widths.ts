import type { TableColumn } from "./columns";

const CELL_PADDING = 16;
/** Pixels a character, at the sizes of `table.css`; of letters of different widths, a wide one. */
const MONOSPACE_WIDTH = 7.3;
const LETTER_WIDTH = 8.5;

/**
 * The width of each column in whole pixels, for all rows at once: rows that had to work out their own from shares of the
 * space would each be laid out in two passes.
 */
export class ColumnWidths {
  private columns: readonly TableColumn[] = [];
  private readonly observer: ResizeObserver | null;

  private applied = "";
  /** Of each column, how many characters surely fit into a cell. */
  limits: readonly number[] = [];

  /** `onResize` is called when the widths changed because the element's did. */
  constructor(
    private readonly element: HTMLElement,
    onResize: () => void,
  ) {
    const observed = () => this.apply() && onResize();
    this.observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(observed);
    this.observer?.observe(element);
  }

  show(columns: readonly TableColumn[]): void {
    this.columns = columns;
    this.apply();
  }

  destroy(): void {
    this.observer?.disconnect();
  }

  /** Whether anything changed. */
  private apply(): boolean {
    const widths = columnWidths(this.columns, this.element.clientWidth);
    const tracks = widths.map((width) => `${width}px`).join(" ");
    this.limits = this.columns.map(({ monospace }, position) =>
      Math.floor(((widths[position] ?? 0) - CELL_PADDING) / (monospace ? MONOSPACE_WIDTH : LETTER_WIDTH)),
    );
    if (tracks === this.applied) return false;
    this.applied = tracks;
    const { style } = this.element;
    style.setProperty("--grid-columns", tracks);
    style.setProperty("--grid-width", `${widths.reduce((sum, width) => sum + width, 0)}px`);
    return true;
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
