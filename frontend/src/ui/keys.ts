import { useEffect } from "preact/hooks";

/** Key → action; "Ctrl+z" also answers to the Command key. Return false to let the browser have the key. */
export type KeyMap = Record<string, () => unknown>;

/** The name of a key press as it is written in a KeyMap. */
export function keyName(event: KeyboardEvent): string {
  const command = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
  // With a plain letter, Shift is in the letter itself ("N").
  const shift = event.shiftKey && (command || event.key.length > 1) ? "Shift+" : "";
  return command + shift + (command ? event.key.toLowerCase() : event.key);
}

/** Page-wide keys. They rest while someone types in a field or a dialog is open. */
export function useKeys(keys: KeyMap): void {
  useEffect(() => {
    const handle = (event: KeyboardEvent) => {
      if (event.altKey || event.defaultPrevented) return;
      const target = event.target instanceof Element ? event.target : null;
      const typing = target?.matches(
        "input:not([type=range],[type=checkbox],[type=radio]), textarea, select",
      );
      if ((typing && event.key !== "Escape") || document.querySelector("dialog[open]")) return;
      const action = keys[keyName(event)];
      if (action && action() !== false) event.preventDefault();
    };
    document.addEventListener("keydown", handle);
    return () => document.removeEventListener("keydown", handle);
  });
}
