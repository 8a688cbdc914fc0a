import { type Arrangement, HEADER_HEIGHT } from "./card";
import { CardSizes, LabelWidths } from "./card_sizes";
import type { DiffTree } from "./diff_tree";
import { buildLevel, type Level, levelOf, type Port } from "./level";
import type { LevelLayout, LevelSpec } from "./level_layout";
import { pillText } from "./port_name";
import { Sequences } from "./sequences";
import { finishNow, type Sliced } from "./sliced";
import { textWidth } from "./text_width";

/** Edge labels are left out of levels with more edges than this: nobody could read them. */
export const MOST_LABELS = 600;
const PORT_HEIGHT = 22;
/** What is laid out ahead: so many levels, none with more children, and only while so few nodes are open. */
const MOST_AHEAD = 24;
const LARGEST_AHEAD = 80;
const MOST_OPEN_AHEAD = 300;
const NOTHING_OPEN: ReadonlyMap<number, number> = new Map();

type OutlineSpec = Omit<LevelSpec, "id" | "outline" | "nested">;

/**
 * Turns "these nodes are open" into levels to lay out. Equal levels (the blocks of a stack) get one spec, so
 * each is laid out once, however often it is shown; what was laid out before is kept.
 */
export class LayoutPlan {
  readonly layouts = new Map<number, LevelLayout>();
  private readonly levels = new Map<number, Level>();
  /** Number of the outline of a node's level. */
  private readonly outlines = new Map<number, number>();
  private readonly outlineNumbers = new Sequences();
  private readonly outlineSpecs: OutlineSpec[] = [];
  private readonly specNumbers = new Sequences();
  private readonly specs: LevelSpec[] = [];
  private readonly sizes: CardSizes;
  private readonly labels: LabelWidths;
  /** Filled anew for each list that is numbered. */
  private readonly list: number[] = [];

  constructor(
    readonly tree: DiffTree,
    readonly arrangement: Arrangement,
  ) {
    this.sizes = new CardSizes(tree, arrangement);
    this.labels = new LabelWidths(tree, arrangement);
  }

  level(node: number): Level {
    let level = this.levels.get(node);
    if (!level) {
      level = buildLevel(this.tree, node);
      this.levels.set(node, level);
    }
    return level;
  }

  /** For each open node that is reachable from the root, the number of its spec. */
  specsOf(isOpen: (node: number) => boolean): Map<number, number> {
    return finishNow(this.slicedSpecsOf(isOpen));
  }

  /** As specsOf, with pauses. */
  *slicedSpecsOf(isOpen: (node: number) => boolean): Sliced<Map<number, number>> {
    // Nodes are in preorder: from the last to the first, what is inside comes before what is around it.
    const shown = [0];
    for (let at = 0; at < shown.length; at++) {
      for (const child of this.tree.children(shown[at]!)) {
        if (isOpen(child) && this.tree.isExpandable(child)) shown.push(child);
      }
      if (at % 500 === 0) yield;
    }
    shown.sort((a, b) => b - a);
    const found = new Map<number, number>();
    for (const node of shown) {
      let level = this.levels.get(node);
      if (!level) {
        level = yield* levelOf(this.tree, node);
        this.levels.set(node, level);
      }
      found.set(node, this.numberOf(level, found));
      yield;
    }
    return found;
  }

  /**
   * Specs of what may be opened next and is not laid out yet: closed children of nodes that are `shown` open, with
   * nothing opened in them.
   */
  *slicedAhead(shown: ReadonlyMap<number, number>): Sliced<LevelSpec[]> {
    const found = new Set<LevelSpec>();
    if (shown.size > MOST_OPEN_AHEAD) return [];
    for (const node of [...shown.keys()].reverse()) {
      for (const child of this.tree.children(node)) {
        if (shown.has(child) || !this.tree.isExpandable(child)) continue;
        if (this.tree.children(child).length > LARGEST_AHEAD) continue;
        let level = this.levels.get(child);
        if (!level) {
          level = yield* levelOf(this.tree, child);
          this.levels.set(child, level);
        }
        const id = this.numberOf(level, NOTHING_OPEN);
        if (!this.layouts.has(id)) found.add(this.specs[id]!);
        if (found.size >= MOST_AHEAD) return [...found];
        yield;
      }
    }
    return [...found];
  }

  /** Specs that are not laid out yet, inner ones first. */
  missing(ids: Iterable<number>): LevelSpec[] {
    const specs: LevelSpec[] = [];
    for (const id of ids) if (!this.layouts.has(id)) specs.push(this.specs[id]!);
    return [...new Set(specs)].sort((a, b) => a.id - b.id);
  }

  /** The number of the spec for a level whose opened children have the numbers in `found`. */
  private numberOf(level: Level, found: ReadonlyMap<number, number>): number {
    const outline = this.outline(level);
    const { list } = this;
    list.length = 0;
    list.push(outline);
    for (const child of level.children) list.push(found.get(child) ?? -1);
    // Inner specs were numbered first, so a larger number never nests within a smaller one.
    const id = this.specNumbers.number(list);
    if (id === this.specs.length) {
      const nested = Int32Array.from(list.slice(1));
      this.specs.push({ ...this.outlineSpecs[outline]!, id, outline, nested });
    }
    return id;
  }

  /** The number of all of a level's spec but what is opened in it; equal levels have one. */
  private outline(level: Level): number {
    const known = this.outlines.get(level.node);
    if (known !== undefined) return known;
    const { list } = this;
    const { children, edges, inPorts, outPorts } = level;
    const isRoot = level.node === 0;
    const hasLabels = edges.length <= MOST_LABELS;
    list.length = 0;
    list.push(isRoot ? 1 : 0, children.length, inPorts.length, outPorts.length);
    for (const child of children) {
      const { width, height } = this.sizes.of(child);
      list.push(width, height);
    }
    if (isRoot) {
      for (const port of inPorts) list.push(this.pillWidth(port, false));
      for (const port of outPorts) list.push(this.pillWidth(port, true));
    }
    const firstEdge = list.length;
    for (const edge of edges) {
      const sides = Number(edge.teacherTensor >= 0) | (2 * Number(edge.studentTensor >= 0));
      list.push(edge.from, edge.to, sides, hasLabels ? this.labels.of(edge) : 0);
    }
    const number = this.outlineNumbers.number(list);
    if (number === this.outlineSpecs.length) {
      const nodes = list.slice(4, 4 + 2 * children.length);
      const ofEdges = list.slice(firstEdge);
      const every = (of: number[], step: number, first: number) => of.filter((_, at) => at % step === first);
      this.outlineSpecs.push({
        widths: Float32Array.from(every(nodes, 2, 0)),
        heights: Float32Array.from(every(nodes, 2, 1)),
        inPorts: inPorts.length,
        outPorts: outPorts.length,
        portWidths: isRoot
          ? Float32Array.from(list.slice(4 + 2 * children.length, firstEdge))
          : new Float32Array(inPorts.length + outPorts.length),
        portHeight: isRoot ? PORT_HEIGHT : 0,
        from: Int32Array.from(every(ofEdges, 4, 0)),
        to: Int32Array.from(every(ofEdges, 4, 1)),
        sides: Uint8Array.from(every(ofEdges, 4, 2)),
        labelWidths: Float32Array.from(every(ofEdges, 4, 3)),
        headerHeight: isRoot ? 0 : HEADER_HEIGHT,
      });
    }
    this.outlines.set(level.node, number);
    return number;
  }

  private pillWidth(port: Port, isOutput: boolean): number {
    const widths = (["teacher", "student"] as const).map((side) =>
      textWidth(pillText(this.tree, port, side, isOutput), "body"),
    );
    return Math.ceil((Math.max(...widths) * 1.35 + 14) / 8) * 8;
  }
}
