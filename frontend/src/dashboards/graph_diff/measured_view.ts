import { computed, type ReadonlySignal } from "@preact/signals";
import { DOUBTFUL, type NodeColour, type NodePainting, type ValueColumn } from "../../graph/colouring";
import { type DiffTree, NodeType, type SideName } from "../../graph/diff_tree";
import type { MeasuredScale } from "../../ui/measured_scale";
import { MeasuredState, type ShownQuantity } from "../../ui/measured_state";
import type { Palette } from "../../ui/tokens";
import type { DiffState } from "./diff_state";
import { MEASURED, measuredName } from "./measured_colouring";

/** The graph in the colours of what was measured at a step. */
export class MeasuredView {
  readonly state: MeasuredState;
  /** Names and labels of the colourings that the models have. */
  readonly options: ReadonlySignal<{ value: string; label: string }[]>;

  constructor(diff: DiffState) {
    const name = computed(() => measuredName(diff.colouring.value));
    const wanted = computed(() => (name.value ? [name.value] : []));
    this.state = new MeasuredState(diff.session, wanted, diff.measuredStep);
    this.options = computed(() =>
      this.state.quantities.value.map(({ name, label }) => ({ value: MEASURED + name, label })),
    );
  }

  /** How the nodes are painted; null until the values are there. */
  painting(colouring: string, tree: DiffTree, palette: Palette, isMerged: boolean): NodePainting | null {
    const shown = this.state.shown.value.get(measuredName(colouring) ?? "");
    if (!shown) return null;
    return new MeasuredPainting(shown, this.state.scaleOf(shown.quantity), tree, palette, isMerged);
  }
}

/** Paints modules by a measured quantity; what has no value stays grey. */
export class MeasuredPainting implements NodePainting {
  readonly column: ValueColumn;

  constructor(
    private readonly shown: ShownQuantity,
    private readonly scale: MeasuredScale,
    private readonly tree: DiffTree,
    private readonly palette: Palette,
    /** Whether one card stands for both sides: then it has the student's colour, where the student has a value. */
    private readonly isMerged = false,
  ) {
    const { label, meaning } = shown.quantity;
    this.column = {
      label,
      title: meaning || label,
      text: (node, side) => scale.text(this.value(node, side)),
      colour: (node, side) => scale.colour(this.value(node, side)),
    };
  }

  colour(node: number, side: SideName): NodeColour {
    const { tree, palette, scale } = this;
    const doubtful = tree.confidence[node]! < DOUBTFUL;
    const student = this.isMerged ? this.value(node, "student") : Number.NaN;
    const value = Number.isNaN(student) ? this.value(node, side) : student;
    const colour = scale.colour(value);
    if (!colour) return { ...palette.tones.grey, fill: palette.page, glyph: "", doubtful };
    const fill = scale.fill(value)!;
    return { line: colour, fill, ink: palette.text, glyph: scale.glyph(value), doubtful };
  }

  legend(): [] {
    return [];
  }

  /** The value of a node on one side; NaN when it has none. */
  value(node: number, side: SideName): number {
    const { tree } = this;
    const model = tree.side(side);
    const values = this.shown[side]?.values;
    if (!model || !values || !tree.hasSide(node, side)) return Number.NaN;
    if (tree.type[node] === NodeType.FOLD) {
      const parts = Array.from(tree.children(node), (child) => this.value(child, side));
      return together(
        parts.filter((part) => !Number.isNaN(part)),
        this.shown.quantity.sum,
        this.shown.quantity.scale === "category",
      );
    }
    if (tree.type[node] !== NodeType.CALL) return Number.NaN;
    return values.get(model.callPath(tree[side][node]!)) ?? Number.NaN;
  }
}

/** What values of parts are for the whole; NaN where that has no meaning. */
export function together(
  parts: readonly number[],
  sum: ShownQuantity["quantity"]["sum"],
  isCategory = false,
): number {
  if (!parts.length) return Number.NaN;
  if (isCategory) return parts.every((part) => part === parts[0]) ? parts[0]! : Number.NaN;
  switch (sum) {
    case "plain":
      return parts.reduce((total, part) => total + part, 0);
    case "squares":
      return Math.sqrt(parts.reduce((total, part) => total + part * part, 0));
    case "maximum":
      return Math.max(...parts);
    case "mean":
      return parts.reduce((total, part) => total + part, 0) / parts.length;
    default:
      return Number.NaN;
  }
}
