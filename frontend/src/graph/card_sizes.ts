import { type Arrangement, cardSize, edgeLabel, mergedEdgeLabel } from "./card";
import { type DiffTree, NodeType } from "./diff_tree";
import type { LevelEdge } from "./level";
import type { ModelSide } from "./model_side";
import { Sequences } from "./sequences";
import { textWidth } from "./text_width";

interface Size {
  width: number;
  height: number;
}

/** Sizes of cards. Operators of one name have one size, and a model has few names. */
export class CardSizes {
  private readonly names = new Sequences();
  private readonly known: Size[] = [];
  private readonly operatorNames: ArrayLike<number>[];

  constructor(
    private readonly tree: DiffTree,
    private readonly arrangement: Arrangement,
  ) {
    const { teacher, student } = tree.sides;
    this.operatorNames = [teacher, student].map((model) => model?.tables.operators.number("name") ?? []);
  }

  of(node: number): Size {
    const { tree, arrangement } = this;
    if (tree.type[node] !== NodeType.OPERATOR) return cardSize(tree, node, arrangement);
    const [t, s] = this.operatorNames;
    const number = this.names.number([t![tree.teacher[node]!] ?? -1, s![tree.student[node]!] ?? -1]);
    this.known[number] ??= cardSize(tree, node, arrangement);
    return this.known[number];
  }
}

/** Widths of the labels of edges. Many edges carry values of one shape and dtype. */
export class LabelWidths {
  private readonly labels = new Sequences();
  private readonly known: number[] = [];
  private readonly list: number[] = [];

  constructor(
    private readonly tree: DiffTree,
    private readonly arrangement: Arrangement,
  ) {}

  of(edge: LevelEdge): number {
    const { teacher, student } = this.tree.sides;
    const { list } = this;
    list.length = 0;
    list.push(edge.count);
    this.describe(teacher, edge.teacherTensor);
    this.describe(student, edge.studentTensor);
    const number = this.labels.number(list);
    this.known[number] ??= this.measure(edge);
    return this.known[number];
  }

  /** Adds what the text about a value is made of. */
  private describe(model: ModelSide | null, tensor: number): void {
    const { list } = this;
    if (!model || tensor < 0) {
      list.push(-1);
      return;
    }
    const { tensors } = model.tables;
    const { values, offsets } = tensors.list("shape");
    const [begin, end] = [offsets[tensor]!, offsets[tensor + 1]!];
    list.push(end - begin, tensors.number("dtype")[tensor]!);
    for (let at = begin; at < end; at++) list.push(values[at]!);
  }

  private measure(edge: LevelEdge): number {
    const { teacher, student } = this.tree.sides;
    const texts =
      this.arrangement === "merged"
        ? [mergedEdgeLabel(this.tree, edge)]
        : [
            edgeLabel(teacher, edge.teacherTensor, edge.count),
            edgeLabel(student, edge.studentTensor, edge.count),
          ];
    const widest = Math.max(...texts.map((text) => textWidth(text, "mono")));
    return widest ? Math.ceil((widest + 12) / 8) * 8 : 0;
  }
}
