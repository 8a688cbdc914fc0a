import { type ReadonlySignal, signal } from "@preact/signals";

/**
 * Whether the tab is shown. TensorBoard keeps hidden tabs alive at height 0 and animation frames keep running
 * there; an IntersectionObserver is the one thing that notices.
 */
export function watchVisibility(root: Element = document.documentElement): ReadonlySignal<boolean> {
  const visible = signal(true);
  new IntersectionObserver((entries) => {
    visible.value = entries.at(-1)?.isIntersecting ?? true;
  }).observe(root);
  return visible;
}
