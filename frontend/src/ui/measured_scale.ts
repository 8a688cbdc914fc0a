import { channels, SEQUENTIAL } from "../heatmap/color_maps";
import type { MeasuredQuantity } from "../wire/measured";
import { shortBytes, shortDuration, shortNumber } from "./format";
import type { Palette, ToneName } from "./tokens";

/** Where a value lies: on the scale from 0 to 1, or beside it. */
export type Place = number | "zero" | "infinite" | "unknown";

/** The range that several models share; null where none has a value. */
export interface Range {
  minimum: number | null;
  maximum: number | null;
  leastPositive: number | null;
}

const CATEGORY_TONES: readonly ToneName[] = ["blue", "amber", "green", "purple", "sky", "vermillion"];

/** How the values of a quantity are placed, painted and written. One scale serves all steps and both models. */
export class MeasuredScale {
  private readonly low: number;
  private readonly high: number;

  constructor(
    readonly quantity: MeasuredQuantity,
    range: Range,
    private readonly palette: Palette,
  ) {
    const [minimum, maximum] = [range.minimum ?? 0, range.maximum ?? 0];
    switch (quantity.scale) {
      case "log":
        this.low = range.leastPositive ?? 1;
        this.high = Math.max(maximum, this.low);
        break;
      case "signed":
        this.high = Math.max(Math.abs(minimum), Math.abs(maximum));
        this.low = -this.high;
        break;
      default:
        this.low = Math.min(0, minimum);
        this.high = Math.max(maximum, this.low);
    }
  }

  place(value: number | undefined): Place {
    if (value === undefined || Number.isNaN(value)) return "unknown";
    if (!Number.isFinite(value)) return "infinite";
    if (this.quantity.scale === "category") return value;
    if (value === 0 && this.quantity.scale === "log") return "zero";
    const [low, high] = [this.low, this.high];
    const at =
      this.quantity.scale === "log"
        ? (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low))
        : (value - low) / (high - low);
    return Number.isNaN(at) ? (value < 0 ? 0 : 1) : Math.max(0, Math.min(1, at));
  }

  /** The full colour of a value, "#rrggbb"; null for what has none. */
  colour(value: number | undefined): string | null {
    const place = this.place(value);
    const { tones } = this.palette;
    if (place === "unknown") return null;
    if (place === "infinite") return tones.vermillion.line;
    if (place === "zero") return this.palette.borderStrong;
    if (this.quantity.scale === "category") return tones[CATEGORY_TONES[place % CATEGORY_TONES.length]!].line;
    return this.shade(place);
  }

  /** A pale colour to write on; null for what has none. */
  fill(value: number | undefined): string | null {
    const colour = this.colour(value);
    return colour && mix(colour, this.palette.page, 0.62);
  }

  /** A sign for what lies beside the scale, so that colour is not alone; "" else. */
  glyph(value: number | undefined): string {
    const place = this.place(value);
    return place === "zero" ? "0" : place === "infinite" ? "∞" : "";
  }

  text(value: number | undefined): string {
    if (value === undefined || Number.isNaN(value)) return "";
    if (this.quantity.scale === "category") return this.quantity.categories[value] ?? "?";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    return measuredText(value, this.quantity.unit);
  }

  /** The ends of the scale; empty for categories. */
  ends(): readonly [string, string] | null {
    return this.quantity.scale === "category" ? null : [this.text(this.low), this.text(this.high)];
  }

  /** The scale as a CSS gradient, from the least to the largest. */
  gradient(): string {
    const stops = Array.from({ length: 9 }, (_, stop) => this.shade(stop / 8));
    return `linear-gradient(to right, ${stops.join(", ")})`;
  }

  private shade(at: number): string {
    if (this.quantity.scale === "signed") {
      // Blue below, vermillion above, the page's own colour at zero: it means the same in both themes.
      const { blue, vermillion } = this.palette.tones;
      const end = at < 0.5 ? blue.line : vermillion.line;
      return mix(end, this.palette.page, 1 - Math.abs(2 * at - 1));
    }
    // The dark end of the map would vanish on a dark page.
    const index = this.palette.isDark ? 0.3 + 0.7 * at : at;
    return `#${channels(SEQUENTIAL, Math.round(255 * index))
      .map(hex)
      .join("")}`;
  }
}

/** A number with its unit, in three or four digits. */
export function measuredText(value: number, unit: string): string {
  if (unit === "bytes") return value < 0 ? `−${shortBytes(-value)}` : shortBytes(value);
  if (unit === "ns") return shortDuration(value);
  const size = Math.abs(value);
  const text =
    value === 0
      ? "0"
      : size < 1e-2 || size >= 1e6
        ? value.toExponential(1)
        : size >= 1e3
          ? shortNumber(value)
          : String(Number(value.toPrecision(3)));
  return (unit ? `${text} ${unit}` : text).replace("-", "−").replace("e−", "e-");
}

/** `share` of the second colour in the first. */
export function mix(a: string, b: string, share: number): string {
  const [from, to] = [parts(a), parts(b)];
  return `#${from.map((value, index) => hex(value + (to[index]! - value) * share)).join("")}`;
}

function parts(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

function hex(value: number): string {
  return Math.round(value).toString(16).padStart(2, "0");
}
