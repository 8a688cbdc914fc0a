import { effect, type ReadonlySignal } from "@preact/signals";
import base from "./base.css?inline";
import controls from "./controls.css?inline";
import facts from "./facts.css?inline";
import frame from "./frame.css?inline";
import overlays from "./overlays.css?inline";
import states from "./states.css?inline";
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
  for (const css of [base, controls, frame, states, facts, overlays]) adoptStyles(css);
  effect(() => {
    properties.replaceSync(customProperties(dark.value));
    document.documentElement.classList.toggle("dark", dark.value);
  });
}
