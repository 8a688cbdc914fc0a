import { Verdict } from "../gen/tb_plugin_structure/v1/audit_pb";
import { shortBytes, shortDuration, shortNumber } from "../ui/format";
import { kindStyle } from "../ui/kinds";
import type { Palette, Tone } from "../ui/tokens";
import { VERDICTS, verdictStyle } from "../ui/verdict_styles";
import { type DiffTree, NodeType, type SideName } from "./diff_tree";
import type { ModelSide } from "./model_side";

/** How a node is painted. */
export interface NodeColour extends Tone {
  glyph: string;
  /** Low confidence: dashed outline. */
  doubtful: boolean;
}

export const COLOURINGS = [
  "kind",
  "shape verdict",
  "parameters",
  "MACs",
  "activation memory",
  "time",
  "trainable",
  "training mode",
  "dtype",
  "device",
] as const;
export type Colouring = (typeof COLOURINGS)[number];

/** A further column of the outline, with what the colours stand for. */
export interface ValueColumn {
  label: string;
  title: string;
  text(node: number, side: SideName): string;
  /** The full colour of the value, for a swatch; null for none. */
  colour(node: number, side: SideName): string | null;
}

/** What paints the nodes: by a property of the structure, or by what was measured. */
export interface NodePainting {
  colour(node: number, side: SideName): NodeColour;
  legend(): LegendItem[];
  readonly column?: ValueColumn;
}

export interface LegendItem {
  label: string;
  colour: string;
}

/** Confidence below which an outline is dashed. */
export const DOUBTFUL = 0.6;

/** Viridis at five points; sequential values are coloured on the square root, so that small ones still show. */
const SEQUENTIAL = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];

/** Paints nodes by one property, for one tree and palette. */
export class Painting implements NodePainting {
  private readonly largest: number;
  private readonly categories = new Map<string, number>();

  constructor(
    private readonly tree: DiffTree,
    private readonly palette: Palette,
    readonly colouring: Colouring,
    /** Verdict of the shape audit by row of the alignment's pairs; empty until it is read. */
    private readonly verdicts: ReadonlyMap<number, Verdict> = new Map(),
  ) {
    this.largest = isNumeric(colouring)
      ? Math.max(
          // A scale needs an end; all that is coloured is counted in whole things.
          1,
          ...(["teacher", "student"] as const).flatMap((side) =>
            Array.from(tree.children(0), (child) => numericValue(tree, child, side, colouring) || 0),
          ),
        )
      : 1;
  }

  colour(node: number, side: SideName): NodeColour {
    const { tree, palette, colouring } = this;
    const doubtful = tree.confidence[node]! < DOUBTFUL;
    const style = kindStyle(tree.kindOf(node));
    if (colouring === "kind") return { ...palette.tones[style.tone], glyph: style.glyph, doubtful };
    const plain = { ...palette.tones.grey, glyph: style.glyph, doubtful };
    if (isNumeric(colouring)) {
      const value = numericValue(tree, node, side, colouring);
      if (Number.isNaN(value)) return plain;
      const colour = this.shade(Math.sqrt(Math.min(1, value / this.largest)));
      return { ...plain, line: colour, fill: mixColours(colour, palette.page, 0.75), ink: palette.text };
    }
    if (colouring === "shape verdict") {
      const { glyph, tone } = verdictStyle(this.verdicts.get(tree.pair[node]!) ?? Verdict.UNSPECIFIED);
      return { ...palette.tones[tone], glyph, doubtful };
    }
    const text = categoryOf(tree, node, side, colouring);
    if (!text) return plain;
    const tone = this.tone(text);
    return { ...tone, glyph: style.glyph, doubtful };
  }

  legend(): LegendItem[] {
    if (this.colouring === "kind") return [];
    if (this.colouring === "shape verdict") {
      return VERDICTS.map(({ word, glyph, tone }) => ({
        label: `${glyph} ${word}`,
        colour: this.palette.tones[tone].line,
      }));
    }
    if (isNumeric(this.colouring)) {
      return [0, 0.25, 0.5, 0.75, 1].map((at) => ({
        label: at === 0 ? "0" : at === 1 ? this.largestText() : "",
        colour: this.shade(at),
      }));
    }
    return [...this.categories.keys()].map((label) => ({ label, colour: this.tone(label).line }));
  }

  /** The dark end of the map would vanish on a dark page. */
  private shade(t: number): string {
    return sequential(this.palette.isDark ? 0.25 + 0.75 * t : t);
  }

  private largestText(): string {
    if (this.colouring === "activation memory") return shortBytes(this.largest);
    return this.colouring === "time" ? shortDuration(this.largest) : shortNumber(this.largest);
  }

  private tone(category: string): Tone {
    let index = this.categories.get(category);
    if (index === undefined) {
      index = this.categories.size;
      this.categories.set(category, index);
    }
    const order = ["blue", "amber", "green", "purple", "sky", "vermillion", "grey"] as const;
    return this.palette.tones[order[index % order.length]!];
  }
}

function isNumeric(colouring: Colouring): boolean {
  return ["parameters", "MACs", "activation memory", "time"].includes(colouring);
}

/** A quantity of a node on one side; NaN when it has none. */
export function numericValue(tree: DiffTree, node: number, side: SideName, colouring: Colouring): number {
  const model = tree.side(side);
  if (!model || !tree.hasSide(node, side)) return Number.NaN;
  if (tree.type[node] === NodeType.FOLD) {
    const values = Array.from(tree.children(node), (child) => numericValue(tree, child, side, colouring));
    const known = values.filter((value) => !Number.isNaN(value));
    return known.length ? known.reduce((sum, value) => sum + value, 0) : Number.NaN;
  }
  const row = tree[side][node]!;
  if (tree.type[node] === NodeType.OPERATOR) {
    if (colouring === "MACs") return model.operatorValue("macs", row);
    if (colouring === "time" && model.tables.operators.has("duration_ns")) {
      return model.tables.operators.number("duration_ns")[row]!;
    }
    return colouring === "activation memory" ? model.operatorValue("activation_bytes", row) : Number.NaN;
  }
  switch (colouring) {
    case "parameters":
      return model.callParameters(row);
    case "MACs":
      return model.callSum("macs", row);
    case "activation memory":
      return model.callSum("activation_bytes", row);
    default:
      return model.tables.calls.number("duration_ns")[row]!;
  }
}

function categoryOf(tree: DiffTree, node: number, side: SideName, colouring: Colouring): string {
  const model = tree.side(side);
  if (!model || !tree.hasSide(node, side)) return "";
  const isOperator = tree.type[node] === NodeType.OPERATOR;
  const row = tree[side][node]!;
  const output = model.mainOutput(row, isOperator);
  if (colouring === "dtype") return output < 0 ? "" : model.dtype(output);
  if (colouring === "device") return output < 0 ? "" : model.device(output);
  if (isOperator) return "";
  if (colouring === "training mode") {
    return model.tables.modules.number("training")[model.callModule[row]!] ? "training" : "evaluation";
  }
  return trainable(model, row);
}

/** Whether a module's own and inner parameters are trained: "trained", "frozen", "partly", or "" without any. */
export function trainable(model: ModelSide, call: number): string {
  const { modules, parameters } = model.tables;
  const requiresGrad = parameters.number("requires_grad");
  const isBuffer = parameters.number("is_buffer");
  let [trained, frozen] = [false, false];
  const open = [model.callModule[call]!];
  for (let module = open.pop(); module !== undefined; module = open.pop()) {
    for (const parameter of modules.row("parameters", module)) {
      if (isBuffer[parameter]) continue;
      if (requiresGrad[parameter]) trained = true;
      else frozen = true;
    }
    if (trained && frozen) return "partly";
    open.push(...model.moduleChildren[module]!);
  }
  return trained ? "trained" : frozen ? "frozen" : "";
}

export function sequential(t: number): string {
  const at = Math.max(0, Math.min(1, t)) * (SEQUENTIAL.length - 1);
  const low = Math.min(SEQUENTIAL.length - 2, Math.floor(at));
  const [a, b] = [channels(SEQUENTIAL[low]!), channels(SEQUENTIAL[low + 1]!)];
  return `#${a.map((value, index) => hex(value + (b[index]! - value) * (at - low))).join("")}`;
}

function mixColours(a: string, b: string, share: number): string {
  const other = channels(b);
  return `#${channels(a)
    .map((value, index) => hex(value + (other[index]! - value) * share))
    .join("")}`;
}

function channels(colour: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

function hex(value: number): string {
  return Math.round(value).toString(16).padStart(2, "0");
}
