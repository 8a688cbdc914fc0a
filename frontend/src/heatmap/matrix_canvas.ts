import type { ColorMap } from "./color_maps";
import {
  insideMatrix,
  labelPositions,
  moveWindow,
  overlap,
  pixelsOf,
  revealCell,
  scaled,
  wholeMatrix,
  zoomWindow,
} from "./matrix_window";
import { type Box, createPixels, type Matrix, rasterize } from "./rasterize";

export interface MatrixCell {
  readonly row: number;
  readonly column: number;
}

/** Finer values of a part of a matrix. */
export interface MatrixPatch {
  readonly matrix: Matrix;
  /** The part, in positions. */
  readonly box: Box;
}

/** What a matrix canvas draws. Rows and columns are positions: a cell of the matrix may stand for several. */
export interface MatrixPicture {
  readonly matrix: Matrix;
  readonly rows: number;
  readonly columns: number;
  readonly patch: MatrixPatch | null;
  readonly colorIndex: (value: number) => number;
  readonly colors: ColorMap;
  readonly rowLabels: readonly string[];
  readonly columnLabels: readonly string[];
  readonly rowTitle: string;
  readonly columnTitle: string;
  /** Row marked as chosen; −1 for none. */
  readonly selectedRow: number;
}

export interface MatrixInk {
  readonly text: string;
  readonly textSoft: string;
  readonly border: string;
  readonly focus: string;
}

export interface MatrixEvents {
  onHover(cell: MatrixCell | null): void;
  onSelect(cell: MatrixCell): void;
  /** Another part is in view. */
  onView(view: Box): void;
}

const FONT = '11px "Roboto Mono", ui-monospace, "DejaVu Sans Mono", monospace';
const LINE_HEIGHT = 13;
const MOST_MEASURED = 512;
const LONGEST_LABEL = 96;
const TITLE_HEIGHT = 16;

/**
 * A matrix with labelled axes on a canvas, and marks that follow the pointer on a second canvas above it, so that
 * moving the pointer never draws the matrix again. The wheel zooms, dragging moves, arrow keys move the cursor.
 */
export class MatrixCanvas {
  private readonly base = document.createElement("canvas");
  private readonly marks = document.createElement("canvas");
  private picture: MatrixPicture | null = null;
  private view: Box = { x: 0, y: 0, width: 1, height: 1 };
  private plot: Box = { x: 0, y: 0, width: 1, height: 1 };
  private cursor: MatrixCell | null = null;
  private drag: { x: number; y: number; view: Box; moved: boolean } | null = null;
  private readonly resize: ResizeObserver;
  private frame = 0;

  constructor(
    private readonly element: HTMLElement,
    private ink: MatrixInk,
    private readonly events: MatrixEvents,
  ) {
    element.classList.add("matrix");
    element.tabIndex = 0;
    this.marks.className = "matrix-marks";
    element.replaceChildren(this.base, this.marks);
    element.addEventListener("pointermove", this.onPointerMove);
    element.addEventListener("pointerleave", this.onPointerLeave);
    element.addEventListener("pointerdown", this.onPointerDown);
    element.addEventListener("pointerup", this.onPointerUp);
    element.addEventListener("wheel", this.onWheel, { passive: false });
    element.addEventListener("dblclick", this.onDoubleClick);
    element.addEventListener("keydown", this.onKeyDown);
    this.resize = new ResizeObserver(() => this.scheduleDraw());
    this.resize.observe(element);
  }

  /** Draws a picture; `view` is the part of it to show, null for all of it. */
  show(picture: MatrixPicture, ink: MatrixInk, view: Box | null): void {
    const { rows, columns } = picture;
    if (this.picture?.rows !== rows || this.picture.columns !== columns) this.cursor = null;
    this.view = view === null ? wholeMatrix(rows, columns) : insideMatrix(view, rows, columns);
    this.picture = picture;
    this.ink = ink;
    this.scheduleDraw();
  }

  private look(view: Box): void {
    this.view = view;
    this.scheduleDraw();
    this.events.onView(view);
  }

  /** Shows the whole matrix again. */
  fit(): void {
    if (this.picture !== null) this.look(wholeMatrix(this.picture.rows, this.picture.columns));
  }

  /** The picture as drawn, for download. */
  get canvas(): HTMLCanvasElement {
    return this.base;
  }

  destroy(): void {
    this.resize.disconnect();
    cancelAnimationFrame(this.frame);
    this.element.replaceChildren();
  }

  private scheduleDraw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    const { picture } = this;
    const { clientWidth: width, clientHeight: height } = this.element;
    // A hidden tab has no size; it is drawn when it is shown.
    if (picture === null || width < 40 || height < 40) return;
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.base, this.marks]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = this.base.getContext("2d");
    if (context === null) return;
    context.font = FONT;
    this.plot = this.plotBox(context, picture, width, height);
    const { plot } = this;
    const pixels = createPixels(Math.round(plot.width * ratio), Math.round(plot.height * ratio));
    const all = { x: 0, y: 0, width: pixels.width, height: pixels.height };
    const { matrix, patch, rows, columns, colorIndex, colors } = picture;
    const [down, across] = [matrix.rows / rows, matrix.columns / columns];
    rasterize(pixels, all, matrix, scaled(this.view, across, down), colorIndex, colors);
    const part = patch === null ? null : overlap(this.view, patch.box);
    if (patch !== null && part !== null) {
      const { matrix: fine, box } = patch;
      const target = pixelsOf(part, this.view, pixels.width, pixels.height);
      const window = { ...part, x: part.x - box.x, y: part.y - box.y };
      const cells = scaled(window, fine.columns / box.width, fine.rows / box.height);
      if (target.width > 0 && target.height > 0) rasterize(pixels, target, fine, cells, colorIndex, colors);
    }
    const bytes = new Uint8ClampedArray(pixels.data.buffer as ArrayBuffer);
    context.putImageData(
      new ImageData(bytes, pixels.width, pixels.height),
      Math.round(plot.x * ratio),
      Math.round(plot.y * ratio),
    );
    context.scale(ratio, ratio);
    context.strokeStyle = this.ink.border;
    context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.width + 1, plot.height + 1);
    this.drawAxes(context, picture);
    this.drawMarks();
  }

  private plotBox(
    context: CanvasRenderingContext2D,
    picture: MatrixPicture,
    width: number,
    height: number,
  ): Box {
    // Of very long axes some labels are measured, the last among them: numbers are longest there.
    const widest = (labels: readonly string[]) => {
      const step = Math.ceil(labels.length / MOST_MEASURED);
      return labels
        .filter((_, index) => (labels.length - 1 - index) % step === 0)
        .reduce((sum, label) => Math.max(sum, context.measureText(shorten(label)).width), 10);
    };
    const left = Math.min(LONGEST_LABEL, widest(picture.rowLabels)) + 10 + TITLE_HEIGHT;
    const top = Math.min(LONGEST_LABEL, widest(picture.columnLabels)) + 10 + TITLE_HEIGHT;
    const { rows, columns } = picture;
    // Square cells where they fit, so that the diagonal is one; long axes are squeezed instead.
    const side = Math.min((width - left - 6) / columns, (height - top - 6) / rows);
    const isSlim = Math.max(rows, columns) > 4 * Math.min(rows, columns);
    const plotWidth = isSlim ? width - left - 6 : side * columns;
    const plotHeight = isSlim ? Math.min(height - top - 6, Math.max(rows * 8, 160)) : side * rows;
    return {
      x: Math.round(left),
      y: Math.round(top),
      width: Math.max(1, Math.floor(plotWidth)),
      height: Math.max(1, Math.floor(plotHeight)),
    };
  }

  private drawAxes(context: CanvasRenderingContext2D, picture: MatrixPicture): void {
    const { plot, view } = this;
    context.fillStyle = this.ink.text;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const row of labelPositions(view.y, view.height, plot.height, LINE_HEIGHT)) {
      context.fillText(
        shorten(picture.rowLabels[row] ?? String(row)),
        plot.x - 5,
        this.rowCenter(row),
        LONGEST_LABEL,
      );
    }
    context.textAlign = "left";
    for (const column of labelPositions(view.x, view.width, plot.width, LINE_HEIGHT)) {
      context.save();
      context.translate(this.columnCenter(column), plot.y - 5);
      context.rotate(-Math.PI / 2);
      context.fillText(shorten(picture.columnLabels[column] ?? String(column)), 0, 0, LONGEST_LABEL);
      context.restore();
    }
    context.fillStyle = this.ink.textSoft;
    context.font = "11px Roboto, sans-serif";
    context.textAlign = "left";
    context.fillText(`${picture.columnTitle} →`, plot.x, TITLE_HEIGHT / 2);
    context.save();
    context.translate(TITLE_HEIGHT / 2, plot.y);
    context.rotate(-Math.PI / 2);
    context.textAlign = "right";
    context.fillText(`← ${picture.rowTitle}`, 0, 0);
    context.restore();
  }

  private drawMarks(): void {
    const context = this.marks.getContext("2d");
    const { picture, plot, view } = this;
    if (context === null || picture === null) return;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.element.clientWidth, this.element.clientHeight);
    context.strokeStyle = this.ink.focus;
    const cellHeight = plot.height / view.height;
    const cellWidth = plot.width / view.width;
    const rowTop = (row: number) => plot.y + (row - view.y) * cellHeight;
    const { selectedRow } = picture;
    context.save();
    context.beginPath();
    context.rect(plot.x - 2, plot.y - 2, plot.width + 4, plot.height + 4);
    context.clip();
    if (selectedRow >= 0) {
      context.lineWidth = 2;
      context.strokeRect(plot.x - 1, rowTop(selectedRow), plot.width + 2, Math.max(2, cellHeight));
    }
    if (this.cursor !== null) {
      const { row, column } = this.cursor;
      const x = plot.x + (column - view.x) * cellWidth;
      context.lineWidth = 1;
      context.globalAlpha = 0.5;
      context.strokeRect(plot.x, rowTop(row), plot.width, Math.max(1, cellHeight));
      context.strokeRect(x, plot.y, Math.max(1, cellWidth), plot.height);
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.strokeRect(x, rowTop(row), Math.max(3, cellWidth), Math.max(3, cellHeight));
    }
    context.restore();
  }

  private rowCenter(row: number): number {
    return this.plot.y + ((row + 0.5 - this.view.y) * this.plot.height) / this.view.height;
  }

  private columnCenter(column: number): number {
    return this.plot.x + ((column + 0.5 - this.view.x) * this.plot.width) / this.view.width;
  }

  /** Shares of the plot, 0 … 1 inside. */
  private share(event: MouseEvent): { x: number; y: number } {
    const box = this.element.getBoundingClientRect();
    return {
      x: (event.clientX - box.left - this.plot.x) / this.plot.width,
      y: (event.clientY - box.top - this.plot.y) / this.plot.height,
    };
  }

  private cellAt(event: MouseEvent): MatrixCell | null {
    const { x, y } = this.share(event);
    if (this.picture === null || x < 0 || y < 0 || x >= 1 || y >= 1) return null;
    return {
      row: Math.floor(this.view.y + y * this.view.height),
      column: Math.floor(this.view.x + x * this.view.width),
    };
  }

  private setCursor(cell: MatrixCell | null): void {
    if (cell?.row === this.cursor?.row && cell?.column === this.cursor?.column) return;
    this.cursor = cell;
    this.drawMarks();
    this.events.onHover(cell);
  }

  private readonly onPointerMove = (event: PointerEvent): void => {
    if (this.drag !== null && this.picture !== null) {
      const { rows, columns } = this.picture;
      const dx = event.clientX - this.drag.x;
      const dy = event.clientY - this.drag.y;
      if (Math.hypot(dx, dy) > 4) this.drag.moved = true;
      if (this.drag.moved) {
        const byColumns = (-dx * this.view.width) / this.plot.width;
        const byRows = (-dy * this.view.height) / this.plot.height;
        this.look(moveWindow(this.drag.view, byColumns, byRows, rows, columns));
        return;
      }
    }
    this.setCursor(this.cellAt(event));
  };

  private readonly onPointerLeave = (): void => {
    this.drag = null;
    this.setCursor(null);
  };

  private readonly onPointerDown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    this.drag = { x: event.clientX, y: event.clientY, view: this.view, moved: false };
  };

  private readonly onPointerUp = (event: PointerEvent): void => {
    const cell = this.cellAt(event);
    if (this.drag !== null && !this.drag.moved && cell !== null) this.events.onSelect(cell);
    this.drag = null;
  };

  private readonly onWheel = (event: WheelEvent): void => {
    // Plain wheel scrolls the page, as everywhere else.
    if (this.picture === null || !(event.ctrlKey || event.metaKey || event.shiftKey)) return;
    event.preventDefault();
    const { x, y } = this.share(event);
    const delta = event.deltaY || event.deltaX;
    this.zoom(Math.exp(-delta / 300), Math.max(0, Math.min(1, x)), Math.max(0, Math.min(1, y)));
  };

  private zoom(factor: number, x: number, y: number): void {
    if (this.picture === null) return;
    const { rows, columns } = this.picture;
    this.look(zoomWindow(this.view, factor, x, y, rows, columns));
  }

  private readonly onDoubleClick = (event: MouseEvent): void => {
    const { x, y } = this.share(event);
    this.zoom(2.5, x, y);
  };

  private readonly onKeyDown = (event: KeyboardEvent): void => {
    if (this.picture === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const { rows, columns } = this.picture;
    const cell = this.cursor ?? { row: Math.max(0, this.picture.selectedRow), column: 0 };
    const step = event.shiftKey ? 10 : 1;
    const moves: Record<string, [number, number]> = {
      ArrowUp: [-step, 0],
      ArrowDown: [step, 0],
      ArrowLeft: [0, -step],
      ArrowRight: [0, step],
    };
    const move = moves[event.key];
    if (move !== undefined) {
      const next = {
        row: Math.max(0, Math.min(rows - 1, cell.row + move[0])),
        column: Math.max(0, Math.min(columns - 1, cell.column + move[1])),
      };
      const view = revealCell(this.view, next.row, next.column, rows, columns);
      if (view.x !== this.view.x || view.y !== this.view.y) this.look(view);
      this.setCursor(next);
    } else if (event.key === "Enter") this.events.onSelect(cell);
    else if (event.key === "+" || event.key === "=") this.zoom(1.5, 0.5, 0.5);
    else if (event.key === "-") this.zoom(1 / 1.5, 0.5, 0.5);
    else if (event.key === "f") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

/** Long tokens keep both ends; the full one is shown with the value. */
function shorten(label: string): string {
  const letters = [...label];
  return letters.length <= 14 ? label : `${letters.slice(0, 9).join("")}…${letters.slice(-4).join("")}`;
}
