/** Geometry of a small line chart: pure, drawn as SVG by the views. */
export interface Series {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

export interface ChartFrame {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export class ChartScale {
  readonly minX: number;
  readonly maxX: number;
  /** Smallest and largest value drawn. */
  readonly low: number;
  readonly high: number;
  private readonly minY: number;
  private readonly maxY: number;

  constructor(
    series: readonly Series[],
    private readonly frame: ChartFrame,
  ) {
    const known = series.flatMap(({ points }) => points.filter(({ y }) => Number.isFinite(y)));
    this.minX = known.reduce((least, { x }) => Math.min(least, x), Number.POSITIVE_INFINITY);
    this.maxX = known.reduce((most, { x }) => Math.max(most, x), Number.NEGATIVE_INFINITY);
    this.low = known.reduce((least, { y }) => Math.min(least, y), Number.POSITIVE_INFINITY);
    this.high = known.reduce((most, { y }) => Math.max(most, y), Number.NEGATIVE_INFINITY);
    // A flat line runs through the middle.
    const room =
      this.high > this.low ? 0.06 * (this.high - this.low) : Math.max(1e-3, Math.abs(this.high) * 0.1);
    this.minY = this.low - room;
    this.maxY = this.high + room;
  }

  get isEmpty(): boolean {
    return !Number.isFinite(this.minX);
  }

  x(value: number): number {
    const { left, right, width } = this.frame;
    const span = this.maxX - this.minX;
    const share = span > 0 ? (value - this.minX) / span : 0.5;
    return left + share * (width - left - right);
  }

  y(value: number): number {
    const { top, bottom, height } = this.frame;
    return top + ((this.maxY - value) / (this.maxY - this.minY)) * (height - top - bottom);
  }

  /** The path of a series; a gap where a value is unknown. */
  path(series: Series): string {
    let isPen = false;
    return series.points
      .map(({ x, y }) => {
        if (!Number.isFinite(y)) {
          isPen = false;
          return "";
        }
        const command = `${isPen ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`;
        isPen = true;
        return command;
      })
      .join("");
  }
}
