/**
 * The visual constants of all tabs, for CSS and canvas alike.
 *
 * Hues are those of Okabe and Ito (distinguishable under the common colour blindnesses). Each has three
 * strengths a theme: `line` for strokes and bars, `ink` for text (at least 4.5 : 1 on the page), `fill` for
 * backgrounds.
 */
export interface Tone {
  line: string;
  ink: string;
  fill: string;
}

export type ToneName = "grey" | "blue" | "sky" | "purple" | "green" | "vermillion" | "amber";

export interface Palette {
  isDark: boolean;
  page: string;
  panel: string;
  raised: string;
  border: string;
  borderStrong: string;
  text: string;
  textSoft: string;
  textFaint: string;
  hover: string;
  selected: string;
  selection: string;
  focus: string;
  accent: string;
  shadow: string;
  tones: Record<ToneName, Tone>;
}

const LIGHT: Palette = {
  isDark: false,
  page: "#ffffff",
  panel: "#fafafa",
  raised: "#ffffff",
  border: "#e0e3e7",
  borderStrong: "#bdc1c6",
  text: "#202124",
  textSoft: "#50555b",
  textFaint: "#6b7177",
  hover: "#f1f3f4",
  selected: "#fff0dd",
  selection: "#202124",
  focus: "#e8710a",
  accent: "#a34c00",
  shadow: "0 1px 2px rgba(60,64,67,.2), 0 2px 6px rgba(60,64,67,.12)",
  tones: {
    grey: { line: "#9aa0a6", ink: "#5f6368", fill: "#f3f4f6" },
    blue: { line: "#0072b2", ink: "#005e93", fill: "#e1eff8" },
    sky: { line: "#56b4e9", ink: "#1a6591", fill: "#e9f6fd" },
    purple: { line: "#cc79a7", ink: "#92396a", fill: "#f9eaf2" },
    green: { line: "#009e73", ink: "#006b4e", fill: "#def4ec" },
    vermillion: { line: "#d55e00", ink: "#a14600", fill: "#fce9dd" },
    amber: { line: "#e69f00", ink: "#7d5600", fill: "#fdf2d9" },
  },
};

const DARK: Palette = {
  isDark: true,
  page: "#303030",
  panel: "#383838",
  raised: "#424242",
  border: "#4e4e4e",
  borderStrong: "#757575",
  text: "#f1f3f4",
  textSoft: "#c6cacf",
  textFaint: "#a9aeb4",
  hover: "#454545",
  selected: "#54412c",
  selection: "#ffffff",
  focus: "#ff9e45",
  accent: "#ffb877",
  shadow: "0 1px 3px rgba(0,0,0,.5), 0 3px 10px rgba(0,0,0,.35)",
  tones: {
    grey: { line: "#8d949b", ink: "#c3c8cd", fill: "#3f4245" },
    blue: { line: "#4aa3dc", ink: "#8ccaf3", fill: "#1f4055" },
    sky: { line: "#80caf5", ink: "#a5dcfb", fill: "#2c4a5b" },
    purple: { line: "#dc97bd", ink: "#efbcd7", fill: "#533747" },
    green: { line: "#35c29a", ink: "#74ddbd", fill: "#1c4a3c" },
    vermillion: { line: "#f2853a", ink: "#ffb078", fill: "#573520" },
    amber: { line: "#f0b63c", ink: "#f8d081", fill: "#524220" },
  },
};

export function palette(dark: boolean): Palette {
  return dark ? DARK : LIGHT;
}

/** Spacing in pixels: `SPACE[2]` is 8. */
export const SPACE = [0, 4, 8, 12, 16, 20, 24] as const;
export const RADIUS = 4;
export const FONT = 'Roboto, "Helvetica Neue", Arial, sans-serif';
export const MONO = '"Roboto Mono", ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
/** Of a row of the outline, in pixels; the styles say the same. */
export const ROW_HEIGHT = 24;
/** Duration of a transition that explains a change. */
export const MOTION_MS = 150;

/** The palette as custom properties: `--text-soft`, `--blue-fill` … */
export function customProperties(dark: boolean): string {
  const colours = palette(dark);
  const lines: string[] = [];
  for (const [name, value] of Object.entries(colours)) {
    if (typeof value === "string") lines.push(`--${kebab(name)}:${value}`);
  }
  for (const [name, tone] of Object.entries(colours.tones)) {
    for (const [strength, value] of Object.entries(tone)) lines.push(`--${name}-${strength}:${value}`);
  }
  lines.push(`--font:${FONT}`, `--mono:${MONO}`, `color-scheme:${dark ? "dark" : "light"}`);
  return `:root{${lines.join(";")}}`;
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
