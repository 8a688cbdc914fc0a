/** Numbers as people read them: short by default, exact on demand. Ratios are student ÷ teacher everywhere. */

const STEPS: readonly [number, string][] = [
  [1e12, " T"],
  [1e9, " G"],
  [1e6, " M"],
  [1e3, " k"],
];

/** `25557032` → "25.6 M"; numbers below 1,000 as they are; unknown (NaN) → "?". */
export function shortNumber(value: number): string {
  if (Number.isNaN(value)) return "?";
  const size = Math.abs(value);
  for (const [step, unit] of STEPS) {
    // 999,950 would print as "1000.0 k"; it belongs to the next unit.
    if (size >= step * 0.99995) return threeDigits(value / step) + unit;
  }
  return Number.isInteger(value) ? String(value) : threeDigits(value);
}

/** `25557032` → "25,557,032". */
export function exactNumber(value: number): string {
  return Number.isNaN(value) ? "unknown" : exactFormat.format(value);
}

// Made once: tables call this for every cell in view, and making a format takes longer than using it.
const exactFormat = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

const BYTE_STEPS: readonly [number, string][] = [
  [2 ** 40, " TiB"],
  [2 ** 30, " GiB"],
  [2 ** 20, " MiB"],
  [2 ** 10, " KiB"],
];

/** `102228128` → "97.5 MiB". */
export function shortBytes(value: number): string {
  if (Number.isNaN(value)) return "?";
  for (const [step, unit] of BYTE_STEPS) {
    if (Math.abs(value) >= step) return threeDigits(value / step) + unit;
  }
  return `${value} B`;
}

/** Nanoseconds → "1.24 ms". */
export function shortDuration(ns: number): string {
  if (Number.isNaN(ns)) return "?";
  if (ns >= 1e9) return `${threeDigits(ns / 1e9)} s`;
  if (ns >= 1e6) return `${threeDigits(ns / 1e6)} ms`;
  if (ns >= 1e3) return `${threeDigits(ns / 1e3)} µs`;
  return `${Math.round(ns)} ns`;
}

/** Student ÷ teacher, "0.46 ×"; "" when it has no meaning (unknown, or nothing to divide by). */
export function ratio(student: number, teacher: number): string {
  if (!(teacher > 0) || Number.isNaN(student)) return "";
  const value = student / teacher;
  if (value > 0 && value < 0.005) return `${value.toPrecision(1)} ×`;
  return `${value >= 99.5 ? Math.round(value).toLocaleString("en-US") : value.toFixed(value >= 9.995 ? 1 : 2)} ×`;
}

/** `[2, 64, 56, 56]` → "2×64×56×56"; a scalar → "scalar". */
export function shapeText(shape: ArrayLike<number>): string {
  return shape.length ? Array.from(shape).join("×") : "scalar";
}

function threeDigits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

/** A text whose words of more than 120 characters, which are paths, keep their first 40 and last 40 alone. */
export function elided(text: string): string {
  return text.replace(/\S{121,}/g, (word) => `${word.slice(0, 40)}…${word.slice(-40)}`);
}
