import { Verdict } from "../gen/tb_plugin_structure/v1/audit_pb";
import type { ToneName } from "./tokens";

/** How a verdict is named, drawn and explained. */
export interface VerdictStyle {
  readonly id: string;
  readonly verdict: Verdict;
  readonly word: string;
  readonly glyph: string;
  readonly tone: ToneName;
  readonly meaning: string;
}

export const VERDICTS: readonly VerdictStyle[] = [
  {
    id: "match",
    verdict: Verdict.MATCH,
    word: "match",
    glyph: "=",
    tone: "grey",
    meaning: "the features can be compared as they are",
  },
  {
    id: "adapt",
    verdict: Verdict.ADAPT,
    word: "adapt",
    glyph: "↔",
    tone: "blue",
    meaning: "they can after the adapter named",
  },
  {
    id: "incompatible",
    verdict: Verdict.INCOMPATIBLE,
    word: "incompatible",
    glyph: "✕",
    tone: "purple",
    meaning: "no honest adapter exists; the cause says why",
  },
  {
    id: "unmatched",
    verdict: Verdict.UNMATCHED,
    word: "unmatched",
    glyph: "±",
    tone: "amber",
    meaning: "only one of the two models has it",
  },
];

const UNKNOWN: VerdictStyle = {
  id: "",
  verdict: Verdict.UNSPECIFIED,
  word: "",
  glyph: "",
  tone: "grey",
  meaning: "",
};
const byVerdict = new Map(VERDICTS.map((style) => [style.verdict, style]));

export function verdictStyle(verdict: Verdict): VerdictStyle {
  return byVerdict.get(verdict) ?? UNKNOWN;
}
