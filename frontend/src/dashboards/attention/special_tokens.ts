import type { TokenAxis } from "../../gen/tb_plugin_structure/v1/attention_pb";

/** How tokenizers write tokens that stand for no text: [CLS], <s>, </s>, <pad>, <|endoftext|>. */
const SPECIAL_TEXT = /^(\[[A-Z0-9_ ]+\]|<\/?(?!w>)[a-z_]+>|<\|[^|]*\|>)$/;

/** Whether a token stands for no text. */
export function isSpecial(token: string): boolean {
  return SPECIAL_TEXT.test(token.trim());
}

/** Positions of tokens that stand for no part of the input: by their text, or before an image's patches. */
export function specialPositions(axis: TokenAxis | undefined): number[] {
  if (axis === undefined) return [];
  if (axis.gridHeight > 0) return Array.from({ length: axis.specialTokens }, (_, position) => position);
  const positions: number[] = [];
  axis.tokens.forEach((token, position) => {
    if (isSpecial(token)) positions.push(position);
  });
  return positions;
}

/** A label for every position of an axis. */
export function axisLabels(axis: TokenAxis | undefined, length: number): string[] {
  return Array.from({ length }, (_, position) => {
    const token = axis?.tokens[position];
    if (token !== undefined) return visibleText(token);
    if (axis === undefined || axis.gridWidth === 0) return String(position);
    const patch = position - axis.specialTokens;
    if (patch < 0) return position === 0 ? "class" : `special ${position}`;
    return `${Math.floor(patch / axis.gridWidth)},${patch % axis.gridWidth}`;
  });
}

/** A label within `most` characters, both ends of it: a token may be a whole document. */
export function shortened(label: string, most: number): string {
  const letters = [...label];
  if (letters.length <= most) return label;
  const tail = Math.floor(most / 4);
  const head = letters.slice(0, most - tail - 1).join("");
  return `${head}…${letters.slice(-tail).join("")} (${letters.length.toLocaleString("en")} characters)`;
}

/** Outer spaces and control characters as visible signs; direction marks isolated, so that labels stay apart. */
export function visibleText(token: string): string {
  const shown = token
    .replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length))
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    // biome-ignore lint/suspicious/noControlCharactersInRegex: hostile tokens hold them
    .replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "�");
  return shown === "" ? "∅" : shown;
}
