import { expect, it } from "vitest";
import { betweenWords, wordsAround, wordsOf } from "./words";

const texts = (tokens: readonly string[]) => wordsOf(tokens)?.map(({ text }) => text);

it.each([
  [
    "WordPiece",
    ["[CLS]", "un", "##believ", "##able", ",", "is", "it", "[SEP]"],
    ["[CLS]", "unbelievable", ",", "is", "it", "[SEP]"],
  ],
  [
    "byte-level pairs",
    ["Un", "believ", "able", ",", "Ġis", "Ġi", "t", "<|endoftext|>"],
    ["Unbelievable", ",", "is", "it", "<|endoftext|>"],
  ],
  ["SentencePiece", ["<s>", "▁un", "believable", "▁it", "</s>"], ["<s>", "unbelievable", "it", "</s>"]],
  ["ends of words", ["un", "believable</w>", "is</w>"], ["unbelievable", "is"]],
  ["continued pieces", ["un@@", "believ@@", "able", "is"], ["unbelievable", "is"]],
])("words of %s", (_, tokens, words) => {
  expect(texts(tokens)).toEqual(words);
});

it("text whose pieces are words has none of its own", () => {
  expect(wordsOf(["the", "cat", "sat"])).toBeNull();
  expect(wordsOf([])).toBeNull();
});

it("names the word around a piece", () => {
  expect(wordsAround(["play", "##ing", "now"])).toEqual(["playing", "playing", ""]);
});

it("joins queries by their mean and keys by their sum, so that rows keep their sum", () => {
  const words = wordsOf(["play", "##ing", "now"])!;
  const matrix = { values: [0.5, 0.25, 0.25, 0.1, 0.1, 0.8, 0.2, 0.2, 0.6], rows: 3, columns: 3 };
  const { values, rows, columns } = betweenWords(matrix, words, words);
  expect([rows, columns]).toEqual([2, 2]);
  expect(Array.from(values, (value) => Math.round(1000 * value) / 1000)).toEqual([0.475, 0.525, 0.4, 0.6]);
});
