/**
 * Colour maps of 256 entries, computed here from paths through the OKLCh colour space (Ottosson 2020,
 * https://bottosson.github.io/posts/oklab/), so that equal steps of the value are equal steps for the eye.
 *
 * An entry is one pixel of an ImageData buffer: bytes red, green, blue, alpha in memory order.
 */
export type ColorMap = Uint32Array;

interface Lch {
  /** Lightness 0 … 1. */
  readonly l: number;
  readonly c: number;
  /** Hue in degrees. */
  readonly h: number;
}

/** Dark violet over blue, teal and green to yellow; lightness rises evenly, so it survives greyscale printing. */
export const SEQUENTIAL: ColorMap = build((t) => ({
  l: 0.2 + 0.72 * t,
  c: 0.085 + 0.09 * t,
  h: 305 - 197 * t ** 0.85,
}));

/** Blue for negative, white for zero, red for positive; both arms are equally light at equal distance from zero. */
export const SIGNED: ColorMap = build((t) => {
  const distance = Math.abs(2 * t - 1);
  return { l: 0.985 - 0.5 * distance, c: 0.2 * distance ** 0.9, h: t < 0.5 ? 258 : 27 };
});

/** The colour of an entry as CSS, for legends and swatches. */
export function cssColor(map: ColorMap, index: number): string {
  const [red, green, blue] = channels(map, index);
  return `rgb(${red}, ${green}, ${blue})`;
}

/** Red, green and blue of an entry, 0 … 255. */
export function channels(map: ColorMap, index: number): [number, number, number] {
  const bytes = new Uint8Array(map.buffer, map.byteOffset + 4 * Math.max(0, Math.min(255, index)), 3);
  return [bytes[0] ?? 0, bytes[1] ?? 0, bytes[2] ?? 0];
}

/** A CSS gradient of a map, for legends. */
export function cssGradient(map: ColorMap): string {
  const stops = Array.from({ length: 17 }, (_, stop) => cssColor(map, Math.round((stop * 255) / 16)));
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

function build(path: (t: number) => Lch): ColorMap {
  const bytes = new Uint8ClampedArray(4 * 256);
  for (let index = 0; index < 256; index++) {
    const [red, green, blue] = toSrgb(path(index / 255));
    bytes.set([red * 255, green * 255, blue * 255, 255], 4 * index);
  }
  return new Uint32Array(bytes.buffer);
}

/** Reduces chroma until the colour exists on a screen: lightness, which carries the value, stays exact. */
function toSrgb(color: Lch): [number, number, number] {
  let chroma = color.c;
  for (;;) {
    const rgb = toLinearRgb({ ...color, c: chroma });
    if (chroma < 0.001 || rgb.every((channel) => channel >= -0.0005 && channel <= 1.0005)) {
      return rgb.map(gammaEncode) as [number, number, number];
    }
    chroma *= 0.98;
  }
}

function toLinearRgb({ l, c, h }: Lch): [number, number, number] {
  const a = c * Math.cos((h * Math.PI) / 180);
  const b = c * Math.sin((h * Math.PI) / 180);
  const long = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ];
}

function gammaEncode(linear: number): number {
  const value = Math.max(0, Math.min(1, linear));
  return value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
}
