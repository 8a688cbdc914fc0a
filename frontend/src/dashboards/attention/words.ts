import type { Matrix } from "../../heatmap/rasterize";
import { isSpecial } from "./special_tokens";

/** Pieces of one word: the positions [begin, end), and its text. */
export interface Word {
  readonly begin: number;
  readonly end: number;
  readonly text: string;
}

/** Marks that byte-level, SentencePiece and plain tokenizers put before a piece that begins a word. */
const BEGINS = /^[\u0120\u2581 ]/;
const LINE_BREAK = /^[\u010a\n]+$/;
/** WordPiece marks what continues a word, older byte-pair encodings what does not end it, or what does. */
const CONTINUES = "##";
const IS_CONTINUED = "@@";
const ENDS = "</w>";
const PUNCTUATION = /^[\p{P}\p{S}]+$/u;

/** The words of a tokenized text, by the marks that tokenizers leave; null when every piece is a word. */
export function wordsOf(tokens: readonly string[]): Word[] | null {
  const marksBegin = tokens.some((token) => BEGINS.test(token) && token.length > 1);
  const marksEnd = tokens.some((token) => token.endsWith(ENDS));
  const words: Word[] = [];
  let begin = 0;
  tokens.forEach((token, position) => {
    const previous = tokens[position - 1];
    if (position === 0 || previous === undefined) return;
    if (!continues(previous, token, marksBegin, marksEnd)) {
      words.push(word(tokens, begin, position));
      begin = position;
    }
  });
  if (tokens.length > 0) words.push(word(tokens, begin, tokens.length));
  return words.length === tokens.length ? null : words;
}

function continues(previous: string, token: string, marksBegin: boolean, marksEnd: boolean): boolean {
  if (isSpecial(previous) || isSpecial(token) || LINE_BREAK.test(previous) || LINE_BREAK.test(token))
    return false;
  if (token.startsWith(CONTINUES) && token.length > CONTINUES.length) return true;
  if (previous.endsWith(IS_CONTINUED) && previous.length > IS_CONTINUED.length) return true;
  const isPunctuation = PUNCTUATION.test(bare(token)) || PUNCTUATION.test(bare(previous));
  if (isPunctuation) return false;
  return marksEnd ? !previous.endsWith(ENDS) : marksBegin && !BEGINS.test(token);
}

/** A piece without the marks of its tokenizer. */
function bare(token: string): string {
  let text = token.replace(/^[\u0120\u2581]+|^ +/, "");
  if (text.startsWith(CONTINUES)) text = text.slice(CONTINUES.length);
  if (text.endsWith(ENDS)) text = text.slice(0, -ENDS.length);
  return text.endsWith(IS_CONTINUED) ? text.slice(0, -IS_CONTINUED.length) : text;
}

function word(tokens: readonly string[], begin: number, end: number): Word {
  const text = end - begin === 1 && isSpecial(tokens[begin] ?? "") ? tokens[begin]! : "";
  return { begin, end, text: text || tokens.slice(begin, end).map(bare).join("") };
}

/** For each position the text of the word it is a piece of; "" where it is the whole word. */
export function wordsAround(tokens: readonly string[]): string[] {
  const around = tokens.map(() => "");
  for (const { begin, end, text } of wordsOf(tokens) ?? []) {
    if (end - begin > 1) around.fill(text, begin, end);
  }
  return around;
}

/** Attention from word to word: the mean over the queries of a word, the sum over the keys of one; rows keep their sum. */
export function betweenWords(matrix: Matrix, queries: readonly Word[], keys: readonly Word[]): Matrix {
  const values = new Float32Array(queries.length * keys.length);
  queries.forEach((query, row) => {
    keys.forEach((key, column) => {
      let sum = 0;
      let seen = false;
      for (let q = query.begin; q < query.end; q++) {
        for (let k = key.begin; k < key.end; k++) {
          const value = matrix.values[q * matrix.columns + k] ?? Number.NaN;
          if (Number.isNaN(value)) continue;
          sum += value;
          seen = true;
        }
      }
      // What is hidden stays hidden.
      values[row * keys.length + column] = seen ? sum / (query.end - query.begin) : Number.NaN;
    });
  });
  return { values, rows: queries.length, columns: keys.length };
}

/** Each position as a word of its own. */
export function single(labels: readonly string[]): Word[] {
  return labels.map((text, begin) => ({ begin, end: begin + 1, text }));
}
