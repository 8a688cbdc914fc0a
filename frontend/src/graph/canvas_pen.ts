import type { Rect } from "./camera";
import { arrowHead, type PathStyle, type Pen, type RectStyle, type WriteStyle } from "./pen";
import { FONT_PIXELS, FONTS, type TextStyle, textWidth } from "./text_width";

const SOLID: readonly number[] = [];

/**
 * Draws onto a canvas whose transformation is already that of the camera.
 *
 * Letters are drawn in sizes of half pixels on the screen, and without the transformation: the browser keeps what it
 * knows of a text for each size of the font, and while one zooms every frame would bring a new one.
 */
export class CanvasPen implements Pen {
  private readonly zoom: number;
  private readonly left: number;
  private readonly top: number;
  /** What was set last: reading a font's name takes the browser longer than drawing the letters. */
  private font = "";

  constructor(private readonly context: CanvasRenderingContext2D) {
    const { a, e, f } = context.getTransform();
    [this.zoom, this.left, this.top] = [a, e, f];
  }

  rect({ x, y, width, height }: Rect, style: RectStyle): void {
    const { context } = this;
    context.globalAlpha = style.alpha ?? 1;
    context.beginPath();
    if (style.radius) context.roundRect(x, y, width, height, Math.min(style.radius, width / 2, height / 2));
    else context.rect(x, y, width, height);
    if (style.fill) {
      context.fillStyle = style.fill;
      context.fill();
    }
    if (style.stroke) {
      context.strokeStyle = style.stroke;
      context.lineWidth = style.lineWidth ?? 1;
      context.setLineDash((style.dash ?? SOLID) as number[]);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  paths(routes: readonly ArrayLike<number>[], style: PathStyle): void {
    const { context } = this;
    context.globalAlpha = style.alpha ?? 1;
    context.beginPath();
    for (const points of routes) {
      const n = points.length;
      if (n < 4) continue;
      context.moveTo(points[0]!, points[1]!);
      for (let at = 2; at < n - 2; at += 2) {
        const [x, y] = [points[at]!, points[at + 1]!];
        context.quadraticCurveTo(x, y, (x + points[at + 2]!) / 2, (y + points[at + 3]!) / 2);
      }
      context.lineTo(points[n - 2]!, points[n - 1]!);
    }
    context.strokeStyle = style.stroke;
    context.lineWidth = style.lineWidth;
    context.setLineDash((style.dash ?? SOLID) as number[]);
    context.stroke();
    if (style.arrow) {
      for (const points of routes)
        this.polygon(arrowHead(points, style.lineWidth), style.stroke, style.alpha);
    }
    context.globalAlpha = 1;
  }

  polygon(points: ArrayLike<number>, fill: string, alpha = 1): void {
    const { context } = this;
    context.globalAlpha = alpha;
    context.beginPath();
    for (let at = 0; at < points.length; at += 2) context.lineTo(points[at]!, points[at + 1]!);
    context.fillStyle = fill;
    context.fill();
    context.globalAlpha = 1;
  }

  text(text: string, x: number, y: number, style: WriteStyle): void {
    if (!text) return;
    const { context, zoom, left, top } = this;
    const scale = style.scale ?? 1;
    const align = style.align ?? "left";
    if (style.backing) {
      const width = textWidth(text, style.style) * scale + 6;
      const start = align === "center" ? x - width / 2 : align === "right" ? x - width + 3 : x - 3;
      const box = { x: start, y: y - 7 * scale, width, height: 14 * scale };
      this.rect(box, { fill: style.backing, alpha: (style.alpha ?? 1) * 0.9 });
    }
    context.globalAlpha = style.alpha ?? 1;
    const font = this.fontOf(style.style, scale);
    if (font !== this.font) {
      context.font = font;
      this.font = font;
    }
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillStyle = style.fill;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillText(text, x * zoom + left, (y + 0.5 * scale) * zoom + top);
    context.setTransform(zoom, 0, 0, zoom, left, top);
    context.globalAlpha = 1;
  }

  private fontOf(style: TextStyle, scale: number): string {
    const pixels = FONT_PIXELS[style] * scale * this.zoom;
    const size = Math.max(1, Math.round(2 * pixels) / 2);
    const key = `${style} ${size}`;
    let font = fonts.get(key);
    if (!font) {
      font = FONTS[style].replace(/[\d.]+px/, `${size}px`);
      fonts.set(key, font);
    }
    return font;
  }
}

const fonts = new Map<string, string>();
