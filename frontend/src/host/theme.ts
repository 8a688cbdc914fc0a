import { type ReadonlySignal, signal } from "@preact/signals";

/**
 * Whether TensorBoard is dark. It has no interface for this: it puts a class on the parent's body, and
 * `prefers-color-scheme` keeps the system's value, which serves only when the parent cannot be read.
 */
export function watchDark(): ReadonlySignal<boolean> {
  const body = parentBody();
  const dark = signal(false);
  if (body) {
    const read = () => {
      dark.value = body.classList.contains("dark-mode");
    };
    read();
    new MutationObserver(read).observe(body, { attributes: true, attributeFilter: ["class"] });
  } else {
    const media = matchMedia("(prefers-color-scheme: dark)");
    dark.value = media.matches;
    media.addEventListener("change", () => {
      dark.value = media.matches;
    });
  }
  return dark;
}

function parentBody(): HTMLElement | null {
  try {
    return window.parent === window ? null : window.parent.document.body;
  } catch {
    return null;
  }
}
