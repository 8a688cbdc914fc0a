import { effect, type ReadonlySignal } from "@preact/signals";
import base from "./base.css?inline";
import { customProperties } from "./tokens";

/** Adds a style sheet to the page. The bundler emits but does not link imported CSS, hence `?inline` and this. */
export function adoptStyles(css: string): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  return sheet;
}

/** Base styles, and custom properties that follow the theme. */
export function installStyles(dark: ReadonlySignal<boolean>): void {
  const properties = adoptStyles(customProperties(dark.peek()));
  adoptStyles(base);
  effect(() => {
    properties.replaceSync(customProperties(dark.value));
    document.documentElement.classList.toggle("dark", dark.value);
  });
}
