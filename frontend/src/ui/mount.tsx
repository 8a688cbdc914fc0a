import { type ComponentChild, render } from "preact";
import { tooltip } from "./tooltip";

/** Puts a tab onto the page that TensorBoard gives it. */
export function mount(view: ComponentChild): void {
  const root = document.createElement("div");
  root.id = "root";
  document.body.append(root);
  tooltip.install();
  render(view, root);
}
