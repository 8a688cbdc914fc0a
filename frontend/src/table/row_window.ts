/** Rows drawn beyond both edges of the view, so that fast scrolling shows no empty space before they follow. */
const BEYOND = 5;

/** Which of many rows of equal height are in view of a scrolling element. */
export class RowWindow {
  /** The first row to draw, and the one after the last. */
  first = 0;
  end = 0;
  private count = 0;
  private viewHeight = 0;
  private readonly observer: ResizeObserver | null;

  /** `onChange` is called when other rows come into view, because one scrolls or because the element changed its size. */
  constructor(
    private readonly scroller: HTMLElement,
    private readonly rowHeight: number,
    private readonly headerHeight: () => number,
    private readonly onChange: () => void,
  ) {
    this.viewHeight = scroller.clientHeight;
    const observed = () => {
      this.viewHeight = scroller.clientHeight;
      this.update();
    };
    this.observer = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(observed);
    this.observer?.observe(scroller);
    scroller.addEventListener("scroll", this.update, { passive: true });
  }

  setCount(count: number): void {
    this.count = count;
    this.place();
  }

  /** Rows that fit into the view below the header. */
  get pageSize(): number {
    return Math.max(1, Math.floor((this.viewHeight - this.headerHeight()) / this.rowHeight) - 1);
  }

  scrollTo(index: number, align: "auto" | "center" = "auto"): void {
    const top = index * this.rowHeight;
    const view = this.viewHeight - this.headerHeight();
    const { scrollTop } = this.scroller;
    if (align === "center") this.scroller.scrollTop = top - (view - this.rowHeight) / 2;
    else if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + view) this.scroller.scrollTop = top + this.rowHeight - view;
    else return;
    // The event comes later; who scrolls by hand draws at once.
    this.place();
  }

  destroy(): void {
    this.observer?.disconnect();
    this.scroller.removeEventListener("scroll", this.update);
  }

  private readonly update = (): void => {
    if (this.place()) this.onChange();
  };

  /** Whether other rows are in view than before. */
  private place(): boolean {
    const { scrollTop } = this.scroller;
    const inView = Math.ceil(this.viewHeight / this.rowHeight);
    const top = Math.min(Math.floor(scrollTop / this.rowHeight), Math.max(0, this.count - inView));
    const first = Math.max(0, top - BEYOND);
    const end = Math.min(this.count, top + inView + 1 + BEYOND);
    if (first === this.first && end === this.end) return false;
    this.first = first;
    this.end = end;
    return true;
  }
}
