import { FONT, MONO } from "../ui/tokens";
import type { Rect } from "./camera";
import { arrowHead, type PathStyle, type Pen, type RectStyle, type WriteStyle } from "./pen";
import { FONT_PIXELS, textWidth } from "./text_width";

const FAMILIES = { title: [FONT, 500], body: [FONT, 400], mono: [MONO, 400], small: [FONT, 400] } as const;

/** Writes the same drawing as an SVG document. */
export class SvgPen implements Pen {
  private readonly parts: string[] = [];

  rect({ x, y, width, height }: Rect, style: RectStyle): void {
    this.parts.push(
      `<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" rx="${style.radius ?? 0}" fill="${style.fill ?? "none"}"${stroke(style)}${opacity(style.alpha)}/>`,
    );
  }

  paths(routes: readonly ArrayLike<number>[], style: PathStyle): void {
    let d = "";
    for (const points of routes) {
      const n = points.length;
      if (n < 4) continue;
      d += `M${short(points[0]!)} ${short(points[1]!)}`;
      for (let at = 2; at < n - 2; at += 2) {
        const [x, y] = [points[at]!, points[at + 1]!];
        d += `Q${short(x)} ${short(y)} ${short((x + points[at + 2]!) / 2)} ${short((y + points[at + 3]!) / 2)}`;
      }
      d += `L${short(points[n - 2]!)} ${short(points[n - 1]!)}`;
    }
    this.parts.push(`<path d="${d}" fill="none"${stroke(style)}${opacity(style.alpha)}/>`);
    if (style.arrow) {
      for (const points of routes)
        this.polygon(arrowHead(points, style.lineWidth), style.stroke, style.alpha);
    }
  }

  polygon(points: ArrayLike<number>, fill: string, alpha?: number): void {
    const corners = Array.from(points, short).join(" ");
    this.parts.push(`<polygon points="${corners}" fill="${fill}"${opacity(alpha)}/>`);
  }

  text(text: string, x: number, y: number, style: WriteStyle): void {
    if (!text) return;
    const [family, weight] = FAMILIES[style.style];
    const scale = style.scale ?? 1;
    const align = style.align ?? "left";
    if (style.backing) {
      const width = textWidth(text, style.style) * scale + 6;
      const left = align === "center" ? x - width / 2 : align === "right" ? x - width + 3 : x - 3;
      const box = { x: left, y: y - 7 * scale, width, height: 14 * scale };
      this.rect(box, { fill: style.backing, alpha: 0.9 });
    }
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" font-family='${family}' font-size="${FONT_PIXELS[style.style] * scale}" font-weight="${weight}" fill="${style.fill}" text-anchor="${anchor}" dominant-baseline="central"${opacity(style.alpha)}>${escapeText(text)}</text>`,
    );
  }

  document(x: number, y: number, width: number, height: number, background: string): string {
    const box = [x, y, width, height].map(short).join(" ");
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" width="${short(width)}" height="${short(height)}"><rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${background}"/>${this.parts.join("")}</svg>`;
  }
}

function stroke(style: { stroke?: string; lineWidth?: number; dash?: readonly number[] }): string {
  if (!style.stroke) return "";
  const dash = style.dash?.length ? ` stroke-dasharray="${style.dash.join(" ")}"` : "";
  return ` stroke="${style.stroke}" stroke-width="${style.lineWidth ?? 1}"${dash}`;
}

function opacity(alpha: number | undefined): string {
  return alpha === undefined || alpha === 1 ? "" : ` opacity="${short(alpha)}"`;
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
