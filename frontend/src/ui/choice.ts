import type { Address, RecordStep, Records } from "../wire/records";
import { counted } from "./counted";

/** One thing that can be picked as teacher or student: a tag of a run, with its steps. */
export interface Choice {
  run: string;
  tag: string;
  model: string;
  /** Variant of a structure, example of an attention record; often empty. */
  variant: string;
  /** A word or two about the size, e.g. "ResNet". */
  detail: string;
  /** Orders models when names do not tell which is the teacher. */
  weight: number;
  steps: RecordStep[];
}

export function structureChoices(records: Records): Choice[] {
  return records.structures
    .filter((entry) => entry.kind !== "outside" && entry.steps.length)
    .map((entry) => ({
      ...entry,
      detail: entry.steps.at(-1)!.model_class,
      weight: entry.steps.at(-1)!.totals.parameters,
    }));
}

export function attentionChoices(records: Records): Choice[] {
  return records.attention
    .filter((entry) => entry.steps.length)
    .map((entry) => {
      const last = entry.steps.at(-1)!;
      return {
        ...entry,
        variant: entry.example,
        detail: `${counted(last.layers, "layer")}, ${counted(last.heads, "head")}`,
        weight: last.heads,
      };
    });
}

/**
 * How a side is written in the address: `run:tag@step`, or `run:tag` for "the latest step, also when a newer
 * one arrives". A tag begins with the name of its kind, so the last `:kind/` splits the two.
 */
export function sideText(choice: Choice, step: number | null): string {
  return `${choice.run}:${choice.tag}${step === null ? "" : `@${step}`}`;
}

export interface Side {
  choice: Choice;
  address: Address;
  /** Position in `choice.steps`. */
  index: number;
  /** Whether the side follows new steps. */
  latest: boolean;
}

/** The side that a text names; null when there is no such record (any more). */
export function parseSide(text: string, choices: readonly Choice[]): Side | null {
  const match = /^(.*):((?:structure|outside|overview)\/.*?|__run_graph__)(?:@(-?\d+))?$/s.exec(text);
  if (!match) return null;
  const choice = choices.find(({ run, tag }) => run === match[1] && tag === match[2]);
  if (!choice) return null;
  if (match[3] === undefined) return sideAt(choice, choice.steps.length - 1, true);
  const index = choice.steps.findIndex(({ step }) => step === Number(match[3]));
  return index < 0 ? sideAt(choice, choice.steps.length - 1, true) : sideAt(choice, index, false);
}

function sideAt(choice: Choice, index: number, latest: boolean): Side {
  const { step, hash } = choice.steps[index]!;
  return { choice, index, latest, address: { run: choice.run, tag: choice.tag, step, hash } };
}

/** What is recorded at a step, for telling whether two steps differ. */
export function contentOf({ structure_hash, hash }: RecordStep): string {
  return structure_hash ?? hash;
}

/** The last step whose record differs from the latest one; null when there is none. */
export function changedBefore({ steps }: Choice): number | null {
  const contents = steps.map(contentOf);
  return steps[contents.findLastIndex((content) => content !== contents.at(-1))]?.step ?? null;
}

/** Which two to show when the user has not said: by name, else the larger one is the teacher. */
export function defaultPair(all: readonly Choice[]): { teacher: Choice | null; student: Choice | null } {
  // Models without attention, or without parameters, only where there is nothing else.
  const choices = all.some(({ weight }) => weight > 0) ? all.filter(({ weight }) => weight > 0) : all;
  const named = (word: RegExp, run?: string) =>
    choices.find(
      (choice) => word.test(choice.model) && !choice.variant && (run === undefined || choice.run === run),
    );
  for (const candidate of choices) {
    if (!/teacher/i.test(candidate.model) || candidate.variant) continue;
    const student = named(/student/i, candidate.run);
    if (student) return { teacher: candidate, student };
  }
  const first = choices[0];
  if (!first) return { teacher: null, student: null };
  const other =
    choices.find((choice) => choice.run === first.run && choice.model !== first.model && !choice.variant) ??
    choices.find((choice) => choice.run !== first.run && !choice.variant);
  if (!other) return { teacher: first, student: null };
  return first.weight >= other.weight
    ? { teacher: first, student: other }
    : { teacher: other, student: first };
}
