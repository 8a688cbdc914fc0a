import { type Arrangement, cardSize, edgeLabel, HEADER_HEIGHT, mergedEdgeLabel } from "./card";
import type { DiffTree } from "./diff_tree";
import { buildLevel, type Level, levelOf, type Port } from "./level";
import type { LevelLayout, LevelSpec } from "./level_layout";
import { pillText } from "./port_name";
import { finishNow, type Sliced } from "./sliced";
import { textWidth } from "./text_width";

/** Edge labels are left out of levels with more edges than this: nobody could read them. */
export const MOST_LABELS = 600;
const PORT_HEIGHT = 22;

interface Outline {
  id: number;
  spec: Omit<LevelSpec, "id" | "outline" | "nested">;
}

/**
 * Turns "these nodes are open" into levels to lay out. Equal levels (the blocks of a stack) get one spec, so
 * each is laid out once, however often it is shown; what was laid out before is kept.
 */
export class LayoutPlan {
  readonly layouts = new Map<number, LevelLayout>();
  private readonly levels = new Map<number, Level>();
  private readonly outlines = new Map<number, Outline>();
  private readonly outlineByKey = new Map<string, Outline>();
  private readonly ids = new Map<string, number>();
  private readonly specs = new Map<number, LevelSpec>();

  constructor(
    readonly tree: DiffTree,
    readonly arrangement: Arrangement,
  ) {}

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
      const nested = Int32Array.from(level.children, (child) => found.get(child) ?? -1);
      found.set(node, this.intern(level, nested));
      yield;
    }
    return found;
  }

  /** Specs that are not laid out yet, inner ones first. */
  missing(ids: Iterable<number>): LevelSpec[] {
    const specs: LevelSpec[] = [];
    for (const id of ids) if (!this.layouts.has(id)) specs.push(this.specs.get(id)!);
    return [...new Set(specs)].sort((a, b) => a.id - b.id);
  }

  /** The number of the spec for a level whose opened children have the given specs. */
  private intern(level: Level, nested: Int32Array): number {
    const outline = this.outline(level);
    const key = `${outline.id}|${nested.join()}`;
    const known = this.ids.get(key);
    if (known !== undefined) return known;
    // Inner specs were interned first, so a larger number never nests within a smaller one.
    const id = this.ids.size;
    this.ids.set(key, id);
    this.specs.set(id, { ...outline.spec, id, outline: outline.id, nested });
    return id;
  }

  /** All of a level's spec but what is opened in it; the same object for equal levels. */
  private outline(level: Level): Outline {
    const known = this.outlines.get(level.node);
    if (known) return known;
    const { tree, arrangement } = this;
    const isRoot = level.node === 0;
    const sizes = Array.from(level.children, (child) => cardSize(tree, child, arrangement));
    const hasLabels = level.edges.length <= MOST_LABELS;
    const ports = [...level.inPorts, ...level.outPorts];
    const spec = {
      widths: Float32Array.from(sizes, ({ width }) => width),
      heights: Float32Array.from(sizes, ({ height }) => height),
      inPorts: level.inPorts.length,
      outPorts: level.outPorts.length,
      portWidths: Float32Array.from(ports, (port, index) =>
        isRoot ? this.pillWidth(port, index >= level.inPorts.length) : 0,
      ),
      portHeight: isRoot ? PORT_HEIGHT : 0,
      from: Int32Array.from(level.edges, (edge) => edge.from),
      to: Int32Array.from(level.edges, (edge) => edge.to),
      sides: Uint8Array.from(
        level.edges,
        (edge) => Number(edge.teacherTensor >= 0) | (2 * Number(edge.studentTensor >= 0)),
      ),
      labelWidths: Float32Array.from(level.edges, (edge) =>
        hasLabels ? labelWidth(tree, edge, arrangement) : 0,
      ),
      headerHeight: isRoot ? 0 : HEADER_HEIGHT,
    };
    const key = Object.values(spec).join("|");
    let outline = this.outlineByKey.get(key);
    if (!outline) {
      outline = { id: this.outlineByKey.size, spec };
      this.outlineByKey.set(key, outline);
    }
    this.outlines.set(level.node, outline);
    return outline;
  }

  private pillWidth(port: Port, isOutput: boolean): number {
    const widths = (["teacher", "student"] as const).map((side) =>
      textWidth(pillText(this.tree, port, side, isOutput), "body"),
    );
    return Math.ceil((Math.max(...widths) * 1.35 + 14) / 8) * 8;
  }
}

function labelWidth(
  tree: DiffTree,
  edge: { teacherTensor: number; studentTensor: number; count: number },
  arrangement: Arrangement,
): number {
  const texts =
    arrangement === "merged"
      ? [mergedEdgeLabel(tree, edge)]
      : [
          edgeLabel(tree.sides.teacher, edge.teacherTensor, edge.count),
          edgeLabel(tree.sides.student, edge.studentTensor, edge.count),
        ];
  const widest = Math.max(...texts.map((text) => textWidth(text, "mono")));
  return widest ? Math.ceil((widest + 12) / 8) * 8 : 0;
}
