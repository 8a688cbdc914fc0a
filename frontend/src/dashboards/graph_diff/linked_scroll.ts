import type { GraphView } from "../../graph/graph_view";
import { heightOf, readingLine, rowAt, rowTops, type Span, windowFor } from "../../graph/reading_line";
import type { Scene } from "../../graph/scene";
import { ROW_HEIGHT } from "./outline_rows";

/** What is followed is reached in steps: this share of what is left, each frame. */
const SHARE = 0.3;
const ARRIVED_PIXELS = 1;

/** What is scrolled of the outline. */
export type Scroller = Pick<HTMLElement, "scrollTop" | "clientHeight">;

/**
 * The outline and the graph show the same part of the models: whichever of the two the reader moves, the other
 * follows. What is moved by itself (to a node that was selected, to make room) leads nothing.
 */
export class LinkedScroll {
  private outline: Scroller | null = null;
  private view: GraphView | null = null;
  private rows: readonly { node: number }[] = [];
  private scene: Scene | null = null;
  private tops: Float32Array | null = null;
  /** Where the outline was put by itself: an event from there is not the reader's. */
  private put = -1;
  private frame = 0;

  constructor(private readonly isOn: () => boolean) {}

  setOutline(outline: Scroller | null): void {
    this.outline = outline;
    this.stop();
  }

  setRows(rows: readonly { node: number }[]): void {
    if (rows === this.rows) return;
    this.rows = rows;
    this.tops = null;
    this.stop();
    // A shorter list may move by itself.
    this.put = this.outline?.scrollTop ?? -1;
  }

  setGraph(view: GraphView | null, scene: Scene | null): void {
    if (scene !== this.scene) this.tops = null;
    this.view = view;
    this.scene = scene;
    this.stop();
  }

  /** Moves the outline without the graph. */
  putOutline(top: number): void {
    if (!this.outline) return;
    this.outline.scrollTop = top;
    // Browsers round, and go no further than the end.
    this.put = this.outline.scrollTop;
  }

  outlineScrolled(): void {
    const { outline, view } = this;
    if (!outline || Math.abs(outline.scrollTop - this.put) < 2) return;
    this.put = -1;
    const tops = this.placed();
    if (!tops || !view) return;
    const row = readingLine(this.outlineSpan(outline)) / ROW_HEIGHT;
    const node = this.rows[Math.min(this.rows.length - 1, Math.floor(row))]!.node;
    const goal = windowFor(heightOf(row, tops), view.span());
    const across = view.across(node);
    this.follow((share) => {
      const { x, y } = view.visible();
      const [left, up] = [across - x, goal - y];
      view.scrollTo(x + left * share, y + up * share);
      return Math.hypot(left, up) * view.scale;
    });
  }

  graphMoved(): void {
    const { outline, view } = this;
    const tops = this.placed();
    if (!tops || !view || !outline) return;
    const line = rowAt(readingLine(view.span()), tops) * ROW_HEIGHT;
    const goal = windowFor(line, this.outlineSpan(outline));
    this.follow((share) => {
      const left = goal - outline.scrollTop;
      this.putOutline(outline.scrollTop + left * share);
      return Math.abs(left);
    });
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** Where the rows are in the drawing; null when nothing is to be linked. */
  private placed(): Float32Array | null {
    if (!this.isOn() || !this.scene || !this.rows.length) return null;
    this.tops ??= rowTops(this.scene, this.rows);
    return this.tops;
  }

  private outlineSpan({ scrollTop, clientHeight }: Scroller): Span {
    return { top: 0, end: this.rows.length * ROW_HEIGHT, at: scrollTop, size: clientHeight };
  }

  /** `move` goes a share of what is left and says how much that was, in pixels. */
  private follow(move: (share: number) => number): void {
    this.stop();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let before = Number.POSITIVE_INFINITY;
    const step = () => {
      this.frame = 0;
      const left = move(still ? 1 : SHARE);
      // No nearer than at the last step: it is as far as it goes.
      if (still || left < ARRIVED_PIXELS || left >= before) return;
      before = left;
      this.frame = requestAnimationFrame(step);
    };
    step();
  }
}
