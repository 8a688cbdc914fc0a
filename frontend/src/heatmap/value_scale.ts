export type ScaleKind = "linear" | "sqrt" | "log";

export const SCALE_KINDS: readonly ScaleKind[] = ["linear", "sqrt", "log"];

/** Ratio between the largest and the smallest value that a log scale tells apart. */
const LOG_RANGE = 1e4;

/** Maps values 0 … maximum to positions 0 … 1 on a colour map; clamps what lies outside. */
export class ValueScale {
  constructor(
    readonly kind: ScaleKind,
    readonly maximum: number,
  ) {}

  position(value: number): number {
    if (!(value > 0) || !(this.maximum > 0)) return 0;
    const share = Math.min(1, value / this.maximum);
    switch (this.kind) {
      case "sqrt":
        return Math.sqrt(share);
      case "log":
        return Math.max(0, 1 + Math.log(share) / Math.log(LOG_RANGE));
      default:
        return share;
    }
  }

  /** Entry of a 256-colour map. NaN has no colour: −1. */
  index(value: number): number {
    return Number.isNaN(value) ? -1 : Math.round(255 * this.position(value));
  }

  /** The value at a position, for the ticks of a legend. */
  valueAt(position: number): number {
    switch (this.kind) {
      case "sqrt":
        return this.maximum * position ** 2;
      case "log":
        return this.maximum * LOG_RANGE ** (position - 1);
      default:
        return this.maximum * position;
    }
  }
}

/** Maps −maximum … maximum to a signed map with zero in the middle; the scale applies to the distance from zero. */
export class SignedScale {
  private readonly half: ValueScale;

  constructor(
    kind: ScaleKind,
    readonly maximum: number,
  ) {
    this.half = new ValueScale(kind, maximum);
  }

  index(value: number): number {
    if (Number.isNaN(value)) return -1;
    const distance = this.half.position(Math.abs(value));
    return Math.round(127.5 + 127.5 * (value < 0 ? -distance : distance));
  }
}
