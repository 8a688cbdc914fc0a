/** The view as a vector picture: canvases as images, charts as they are, texts as text. */
export function viewSvg(view: Element): string {
  const frame = view.getBoundingClientRect();
  const [width, height] = [view.scrollWidth, view.scrollHeight];
  const [left, top] = [frame.left - view.scrollLeft, frame.top - view.scrollTop];
  const page = getComputedStyle(document.body).backgroundColor;
  const parts: string[] = [];
  const place = (box: DOMRect) => ({ x: round(box.left - left), y: round(box.top - top) });
  const walk = (node: Node) => {
    if (node instanceof Text) {
      addText(node, place, parts);
      return;
    }
    if (!(node instanceof Element) || isHidden(node)) return;
    const box = node.getBoundingClientRect();
    const { x, y } = place(box);
    const size = `width="${round(box.width)}" height="${round(box.height)}"`;
    if (node instanceof HTMLCanvasElement) {
      if (node.width > 0 && !node.classList.contains("matrix-marks"))
        parts.push(`<image x="${x}" y="${y}" ${size} href="${node.toDataURL()}"/>`);
      return;
    }
    const chosen = chosenText(node);
    if (chosen !== null) {
      parts.push(line(chosen, x + 4, y + box.height / 2 + 5, getComputedStyle(node)));
      return;
    }
    if (node instanceof SVGSVGElement) {
      parts.push(nested(node, x, y));
      return;
    }
    const { backgroundColor, backgroundImage } = getComputedStyle(node);
    if (backgroundColor !== "rgba(0, 0, 0, 0)" && box.width > 0)
      parts.push(`<rect x="${x}" y="${y}" ${size} fill="${backgroundColor}"/>`);
    if (backgroundImage.startsWith("linear-gradient"))
      parts.push(gradient(backgroundImage, x, y, size, parts.length));
    node.childNodes.forEach(walk);
  };
  view.childNodes.forEach(walk);
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}"><rect width="100%" height="100%" fill="${page}"/>${parts.join("")}</svg>`
  );
}

/** The same as an image of pixels. */
export async function viewPng(view: Element): Promise<Blob | null> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(viewSvg(view))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(image.width * ratio);
  canvas.height = Math.round(image.height * ratio);
  const context = canvas.getContext("2d");
  context?.scale(ratio, ratio);
  context?.drawImage(image, 0, 0);
  return new Promise((resolve) => canvas.toBlob(resolve));
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}

function isHidden(element: Element): boolean {
  const { display, visibility, clip, clipPath } = getComputedStyle(element);
  const isVisuallyHidden = clip !== "auto" || clipPath !== "none";
  return display === "none" || visibility === "hidden" || isVisuallyHidden;
}

/** What a control holds, for it has no text of its own; null for what is none. */
function chosenText(element: Element): string | null {
  if (element instanceof HTMLSelectElement) return element.selectedOptions[0]?.text.trim() ?? "";
  return element instanceof HTMLInputElement && element.type === "number" ? element.value : null;
}

function addText(node: Text, place: (box: DOMRect) => { x: number; y: number }, parts: string[]): void {
  const parent = node.parentElement;
  const text = node.data.trim();
  if (parent === null || text === "") return;
  const style = getComputedStyle(parent);
  const size = Number.parseFloat(style.fontSize);
  for (const { words, box } of linesOf(node)) {
    const { x, y } = place(box);
    // The baseline of a line lies about a fifth of the font size above its end.
    parts.push(line(words, x, y + Math.min(box.height, 1.4 * size) - 0.3 * size, style));
  }
}

/** The lines that a text is broken into on the page, with their places. */
function linesOf(node: Text): { words: string; box: DOMRect }[] {
  const range = document.createRange();
  // Without the spaces around it, which would move it.
  range.setStart(node, node.data.search(/\S/));
  range.setEnd(node, node.data.trimEnd().length);
  const rectangles = range.getClientRects();
  const whole = range.getBoundingClientRect();
  if (whole.width === 0) return [];
  if (rectangles.length < 2) return [{ words: node.data.trim(), box: whole }];
  const lines: { words: string; box: DOMRect }[] = [];
  for (const word of node.data.matchAll(/\S+/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const box = range.getBoundingClientRect();
    const last = lines.at(-1);
    if (last !== undefined && Math.abs(box.top - last.box.top) < box.height / 2) last.words += ` ${word[0]}`;
    else lines.push({ words: word[0], box });
  }
  return lines;
}

function line(words: string, x: number, baseline: number, style: CSSStyleDeclaration): string {
  const { color, fontSize, fontWeight, fontFamily } = style;
  return (
    `<text x="${round(x)}" y="${round(baseline)}" font-size="${Number.parseFloat(fontSize)}" ` +
    `font-weight="${fontWeight}" font-family="${escapeXml(fontFamily)}" fill="${color}">${escapeXml(words)}</text>`
  );
}

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity"] as const;

/** A drawing with its style sheet's values written out, as a file has no style sheet. */
function nested(drawing: SVGSVGElement, x: number, y: number): string {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
    const original = originals[index];
    if (!original || !(element instanceof SVGElement)) return;
    const style = getComputedStyle(original);
    const wanted = [...STYLES, "font-size", "font-family", "text-anchor"];
    element.setAttribute("style", wanted.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  const { width, height } = drawing.getBoundingClientRect();
  copy.setAttribute("x", String(x));
  copy.setAttribute("y", String(y));
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  return new XMLSerializer().serializeToString(copy);
}

/** A legend's gradient from left to right; its stops are evenly spaced. */
function gradient(css: string, x: number, y: number, size: string, number: number): string {
  const colors = css.match(/rgba?\([^)]*\)/g) ?? [];
  const stops = colors
    .map((color, index) => `<stop offset="${index / Math.max(1, colors.length - 1)}" stop-color="${color}"/>`)
    .join("");
  const id = `gradient${number}`;
  return `<linearGradient id="${id}">${stops}</linearGradient><rect x="${x}" y="${y}" ${size} fill="url(#${id})"/>`;
}

function escapeXml(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: XML has no way to write them
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "�")
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll(">", "&gt;")
      .replaceAll('"', "&quot;")
  );
}
