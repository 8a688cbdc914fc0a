let region: HTMLElement | null = null;

/** Tells screen readers what happened; silent for everyone else. */
export function announce(text: string): void {
  if (!region) {
    region = document.createElement("div");
    region.className = "visually-hidden";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = text;
}
