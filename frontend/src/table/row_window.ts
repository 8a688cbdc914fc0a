import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from "@tanstack/virtual-core";

/** Which of many rows of equal height are in view of a scrolling element. */
export class RowWindow {
  private readonly virtualizer: Virtualizer<HTMLElement, HTMLElement>;
  private readonly unmount: () => void;
  private count = 0;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly rowHeight: number,
    private readonly headerHeight: () => number,
    private readonly onChange: () => void,
  ) {
    this.virtualizer = new Virtualizer(this.options());
    this.unmount = this.virtualizer._didMount();
    this.virtualizer._willUpdate();
  }

  setCount(count: number): void {
    this.count = count;
    this.virtualizer.setOptions(this.options());
    this.virtualizer.measure();
    this.virtualizer._willUpdate();
  }

  /** Item numbers to draw, ascending, a few beyond both edges included. */
  visible(): number[] {
    return this.virtualizer.getVirtualIndexes();
  }

  get totalHeight(): number {
    return this.count * this.rowHeight;
  }

  /** Rows that fit into the view below the header. */
  get pageSize(): number {
    return Math.max(1, Math.floor((this.scroller.clientHeight - this.headerHeight()) / this.rowHeight) - 1);
  }

  scrollTo(index: number, align: "auto" | "center" = "auto"): void {
    const top = index * this.rowHeight;
    const view = this.scroller.clientHeight - this.headerHeight();
    const { scrollTop } = this.scroller;
    if (align === "center") this.scroller.scrollTop = top - (view - this.rowHeight) / 2;
    else if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + view) this.scroller.scrollTop = top + this.rowHeight - view;
  }

  destroy(): void {
    this.unmount();
  }

  private options(): VirtualizerOptions<HTMLElement, HTMLElement> {
    return {
      count: this.count,
      getScrollElement: () => this.scroller,
      estimateSize: () => this.rowHeight,
      overscan: 5,
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      onChange: () => this.onChange(),
    };
  }
}
