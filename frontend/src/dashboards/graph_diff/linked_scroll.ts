import type { GraphView } from "../../graph/graph_view";
import { heightOf, readingLine, rowAt, rowTops, type Span, windowFor } from "../../graph/reading_line";
import type { Scene } from "../../graph/scene";
import { ROW_HEIGHT } from "../../ui/tokens";
import type { OutlineRows } from "./outline_rows";

/** What is followed is reached in steps: this share of what is left, each frame. */
const SHARE = 0.3;
const ARRIVED_PIXELS = 1;
/** The graph rests when it was not moved for this long. */
const REST_MS = 120;

/** What is scrolled of the outline. */
export type Scroller = Pick<HTMLElement, "scrollTop" | "clientHeight">;

/** What is shown at the moment. */
export interface Shown {
  outline: Scroller | null;
  rows: OutlineRows;
  view: GraphView | null;
  scene: Scene | null;
}

/**
 * The outline and the graph show the same part of the models: whichever of the two the reader moves, the other
 * follows. What is moved by itself (to a node that was selected, to make room) leads nothing.
 */
export class LinkedScroll {
  /** Where the rows are in the drawing, and of which rows and drawing that is said. */
  private places: { tops: Float32Array; rows: Shown["rows"]; scene: Scene } | null = null;
  /** Where the outline was put by itself: an event from there is not the reader's. */
  private put = Number.NaN;
  private frame = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The rows of the outline when it was last moved. */
  private seen: Shown["rows"];

  constructor(
    private readonly shown: Shown,
    private readonly isOn: () => boolean,
  ) {
    this.seen = shown.rows;
  }

  /** Moves the outline without the graph. */
  putOutline(top: number): void {
    const { outline } = this.shown;
    if (!outline) return;
    outline.scrollTop = top;
    // Browsers round, and go no further than the end.
    this.put = outline.scrollTop;
  }

  outlineScrolled(): void {
    const { outline, view, rows } = this.shown;
    if (!outline || Math.abs(outline.scrollTop - this.put) < 2) return;
    this.put = Number.NaN;
    clearTimeout(this.timer);
    // A list that has become shorter moves by itself.
    const isSame = this.seen === rows;
    this.seen = rows;
    const tops = this.placed();
    if (!tops || !view || !isSame) return;
    const row = readingLine(this.outlineSpan(outline)) / ROW_HEIGHT;
    const node = rows[Math.min(rows.length - 1, Math.floor(row))]!;
    const goal = windowFor(heightOf(row, tops), view.span());
    const across = view.across(node);
    this.follow((share) => {
      const { x, y } = view.visible();
      const [left, up] = [across - x, goal - y];
      view.scrollTo(x + left * share, y + up * share);
      return Math.hypot(left, up) * view.scale;
    });
  }

  /** The outline follows once the graph rests: a list that runs along would cost frames, and nobody reads both. */
  graphMoved(): void {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.outlineFollows(), REST_MS);
  }

  private outlineFollows(): void {
    const { outline, view } = this.shown;
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

  /** Where the rows are in the drawing; null when nothing is to be linked. */
  private placed(): Float32Array | null {
    const { scene, rows } = this.shown;
    if (!this.isOn() || !scene || !rows.length) return null;
    if (this.places?.rows !== rows || this.places.scene !== scene)
      this.places = { tops: rowTops(scene, rows), rows, scene };
    return this.places.tops;
  }

  private outlineSpan({ scrollTop, clientHeight }: Scroller): Span {
    return { top: 0, end: this.shown.rows.length * ROW_HEIGHT, at: scrollTop, size: clientHeight };
  }

  /** `move` goes a share of what is left and says how much that was, in pixels. */
  private follow(move: (share: number) => number): void {
    cancelAnimationFrame(this.frame);
    const { rows, scene } = this.shown;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let before = Number.POSITIVE_INFINITY;
    const step = () => {
      if (this.shown.rows !== rows || this.shown.scene !== scene) return;
      const left = move(still ? 1 : SHARE);
      // No nearer than at the last step: it is as far as it goes.
      if (still || left < ARRIVED_PIXELS || left >= before) return;
      before = left;
      this.frame = requestAnimationFrame(step);
    };
    step();
  }
}
