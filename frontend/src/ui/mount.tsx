import { type ComponentChild, render } from "preact";
import { tooltip } from "./tooltip";

/** Puts a tab onto the page that TensorBoard gives it. */
export function mount(view: ComponentChild): void {
  const root = document.createElement("div");
  root.id = "root";
  document.body.append(root);
  tooltip.install();
  render(view, root);
  takeFocus();
}

/** Keys work at once when the tab is opened, unless something in TensorBoard has the focus. */
function takeFocus(): void {
  try {
    const { activeElement, body } = window.parent.document;
    if (!activeElement || activeElement === body || activeElement === window.frameElement) window.focus();
  } catch {
    // Another origin embeds us; its focus is its own.
  }
}
