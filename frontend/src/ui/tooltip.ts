/**
 * One tooltip for the page. Elements say `data-tip="text"`; canvases call `show` with a position. It appears
 * on hover and on keyboard focus, and Escape hides it.
 */
class Tooltip {
  private element: HTMLElement | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  install(): void {
    this.element = document.createElement("div");
    this.element.className = "tooltip";
    this.element.setAttribute("role", "tooltip");
    this.element.hidden = true;
    document.body.append(this.element);
    document.addEventListener("pointerover", (event) => this.over(event.target));
    document.addEventListener("focusin", (event) => {
      if (event.target instanceof Element && event.target.matches(":focus-visible:not(input)"))
        this.over(event.target);
    });
    document.addEventListener("focusout", () => this.hide());
    document.addEventListener("pointerdown", () => this.hide());
    document.addEventListener("input", () => this.hide());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.hide();
    });
  }

  /** Shows `text` (several lines are kept) beside a point of the viewport. */
  show(text: string, x: number, y: number): void {
    const element = this.element;
    if (!element) return;
    clearTimeout(this.timer);
    element.textContent = text;
    element.hidden = false;
    const { width, height } = element.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 12, innerWidth - width - 4));
    const below = y + 18 + height <= innerHeight - 4;
    element.style.left = `${left}px`;
    element.style.top = `${below ? y + 18 : Math.max(4, y - height - 8)}px`;
  }

  hide(): void {
    clearTimeout(this.timer);
    if (this.element) this.element.hidden = true;
  }

  private over(target: EventTarget | null): void {
    const owner = target instanceof Element ? target.closest<HTMLElement>("[data-tip]") : null;
    if (!owner) {
      if (!(target instanceof HTMLCanvasElement)) this.hide();
      return;
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const text = owner.dataset.tip;
      if (!text || !owner.isConnected) return;
      const box = owner.getBoundingClientRect();
      this.show(text, box.left - 8, box.bottom - 12);
    }, 250);
  }
}

export const tooltip = new Tooltip();
