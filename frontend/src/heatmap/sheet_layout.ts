/** Geometry of a sheet of thumbnails: a row per layer, a thumbnail per head, a margin for the row's label. */
export interface SheetCell {
  readonly row: number;
  readonly column: number;
}

export class SheetLayout {
  readonly width: number;
  readonly height: number;

  /**
   * @param rowLengths thumbnails in each row
   * @param size side of a thumbnail in CSS pixels
   * @param margin space on the left for labels
   */
  constructor(
    readonly rowLengths: readonly number[],
    readonly size: number,
    readonly margin: number,
    readonly gap = 2,
  ) {
    const longest = Math.max(0, ...rowLengths);
    this.width = margin + longest * (size + gap);
    this.height = rowLengths.length * (size + gap);
  }

  /** The largest size at which the longest row fits into a width, within limits. */
  static fit(
    longestRow: number,
    width: number,
    margin: number,
    limits: { min: number; max: number },
    gap = 2,
  ): number {
    const size = Math.floor((width - margin) / Math.max(1, longestRow)) - gap;
    return Math.max(limits.min, Math.min(limits.max, size));
  }

  position(cell: SheetCell): { x: number; y: number } {
    const pitch = this.size + this.gap;
    return { x: this.margin + cell.column * pitch, y: cell.row * pitch };
  }

  /** The thumbnail at a point, null between thumbnails. */
  at(x: number, y: number): SheetCell | null {
    const pitch = this.size + this.gap;
    const cell = { row: Math.floor(y / pitch), column: Math.floor((x - this.margin) / pitch) };
    if (cell.column < 0 || cell.column >= (this.rowLengths[cell.row] ?? 0)) return null;
    return y - cell.row * pitch < this.size && x - this.margin - cell.column * pitch < this.size
      ? cell
      : null;
  }

  /** Where an arrow key leads; stays at the edges, and inside shorter rows. */
  move(cell: SheetCell, key: string): SheetCell | null {
    const lastRow = this.rowLengths.length - 1;
    const within = (row: number, column: number): SheetCell => {
      const safeRow = Math.max(0, Math.min(lastRow, row));
      return { row: safeRow, column: Math.max(0, Math.min((this.rowLengths[safeRow] ?? 1) - 1, column)) };
    };
    switch (key) {
      case "ArrowUp":
        return within(cell.row - 1, cell.column);
      case "ArrowDown":
        return within(cell.row + 1, cell.column);
      case "ArrowLeft":
        return within(cell.row, cell.column - 1);
      case "ArrowRight":
        return within(cell.row, cell.column + 1);
      case "Home":
        return within(cell.row, 0);
      case "End":
        return within(cell.row, Number.MAX_SAFE_INTEGER);
      default:
        return null;
    }
  }
}
