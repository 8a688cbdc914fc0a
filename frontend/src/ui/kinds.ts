import { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import type { ToneName } from "./tokens";

/** How a kind of pair is named, drawn and explained: everywhere, in all tabs. */
export interface KindStyle {
  id: string;
  kind: PairKind;
  name: string;
  glyph: string;
  tone: ToneName;
  meaning: string;
}

/** In the order of legends and chips. */
export const KINDS: readonly KindStyle[] = [
  {
    id: "identical",
    kind: PairKind.IDENTICAL,
    name: "identical",
    glyph: "=",
    tone: "grey",
    meaning: "same class, same attributes, same shapes",
  },
  {
    id: "resized",
    kind: PairKind.RESIZED,
    name: "resized",
    glyph: "↔",
    tone: "blue",
    meaning: "same class; widths or shapes differ",
  },
  {
    id: "reconfigured",
    kind: PairKind.RECONFIGURED,
    name: "reconfigured",
    glyph: "⚙",
    tone: "sky",
    meaning: "same class; attributes other than sizes differ",
  },
  {
    id: "retyped",
    kind: PairKind.RETYPED,
    name: "retyped",
    glyph: "≠",
    tone: "purple",
    meaning: "same role, another class",
  },
  {
    id: "moved",
    kind: PairKind.MOVED,
    name: "moved",
    glyph: "↷",
    tone: "amber",
    meaning: "paired across an order that differs",
  },
  {
    id: "inserted",
    kind: PairKind.INSERTED,
    name: "only in student",
    glyph: "+",
    tone: "green",
    meaning: "only the student has it",
  },
  {
    id: "deleted",
    kind: PairKind.DELETED,
    name: "only in teacher",
    glyph: "−",
    tone: "vermillion",
    meaning: "only the teacher has it",
  },
];

const UNKNOWN: KindStyle = {
  id: "single",
  kind: PairKind.UNSPECIFIED,
  name: "",
  glyph: "",
  tone: "grey",
  meaning: "",
};

const byKind = new Map(KINDS.map((style) => [style.kind, style]));

export function kindStyle(kind: PairKind): KindStyle {
  return byKind.get(kind) ?? UNKNOWN;
}
