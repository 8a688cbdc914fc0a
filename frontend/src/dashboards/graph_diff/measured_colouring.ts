/** Colourings by something that was measured are named so in the address: "measured:gradient_norm". */
export const MEASURED = "measured:";

/** The quantity that a colouring names; null when it is of another kind. */
export function measuredName(colouring: string): string | null {
  // As the address named it before there were others.
  if (colouring === "gradient norm") return "gradient_norm";
  return colouring.startsWith(MEASURED) ? colouring.slice(MEASURED.length) : null;
}
