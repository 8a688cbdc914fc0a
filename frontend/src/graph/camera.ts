export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

const SMALLEST_SCALE = 0.02;
const LARGEST_SCALE = 3;
/** Text is not readable below this; fitting a tall graph stops here and shows its beginning. */
const READABLE_SCALE = 0.7;
/** Names are still told apart at this scale; what is wider than the window then is shown in part. */
const SMALLEST_FIT = 0.4;

/** Maps the drawing's coordinates to pixels: pixel = (world - position) * scale. */
export class Camera {
  x = 0;
  y = 0;
  scale = 1;
  width = 0;
  height = 0;

  view(): Rect {
    return { x: this.x, y: this.y, width: this.width / this.scale, height: this.height / this.scale };
  }

  toWorld(pixelX: number, pixelY: number): [number, number] {
    return [this.x + pixelX / this.scale, this.y + pixelY / this.scale];
  }

  pan(pixelsX: number, pixelsY: number): void {
    this.x -= pixelsX / this.scale;
    this.y -= pixelsY / this.scale;
  }

  /** Zooms so that the point under the pixel stays there. */
  zoom(factor: number, pixelX: number, pixelY: number): void {
    const [worldX, worldY] = this.toWorld(pixelX, pixelY);
    this.scale = Math.max(SMALLEST_SCALE, Math.min(LARGEST_SCALE, this.scale * factor));
    this.x = worldX - pixelX / this.scale;
    this.y = worldY - pixelY / this.scale;
  }

  /**
   * Shows `rect`, as large as it is useful; what is too long to be readable is shown from its top, and beside
   * the `covered` pixels at the right, as far as there is room.
   */
  fit(rect: Rect, margin = 24, largest = 1.15, covered = 0): void {
    const wanted = Math.min(
      (this.width - 2 * margin) / Math.max(1, rect.width),
      (this.height - 2 * margin) / Math.max(1, rect.height),
      largest,
    );
    const byWidth = Math.min((this.width - 2 * margin) / Math.max(1, rect.width), largest);
    this.scale = Math.max(wanted, Math.min(byWidth, READABLE_SCALE), SMALLEST_FIT);
    this.x = rect.x + rect.width / 2 - this.width / this.scale / 2;
    const fits = rect.height * this.scale <= this.height - 2 * margin + 1;
    if (!fits) {
      const spare = (this.width - rect.width * this.scale) / 2;
      this.x += Math.max(0, Math.min(spare - margin, covered - spare)) / this.scale;
    }
    this.y = fits ? rect.y + rect.height / 2 - this.height / this.scale / 2 : rect.y - margin / this.scale;
  }

  /** Moves as little as needed to bring `rect` into view. */
  reveal(rect: Rect, marginPixels = 40): void {
    const margin = marginPixels / this.scale;
    const view = this.view();
    const shift = (start: number, length: number, low: number, size: number) => {
      if (length + 2 * margin > size) return start - margin - low;
      if (start - margin < low) return start - margin - low;
      if (start + length + margin > low + size) return start + length + margin - low - size;
      return 0;
    };
    this.x += shift(rect.x, rect.width, view.x, view.width);
    this.y += shift(rect.y, rect.height, view.y, view.height);
  }

  copyFrom(other: Camera): void {
    Object.assign(this, other);
  }
}

export function overlaps(a: Rect, b: Rect): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** The smallest box around both. */
export function union(a: Rect, b: Rect): Rect {
  const x = Math.min(a.x, b.x);
  const y = Math.min(a.y, b.y);
  return {
    x,
    y,
    width: Math.max(a.x + a.width, b.x + b.width) - x,
    height: Math.max(a.y + a.height, b.y + b.height) - y,
  };
}
