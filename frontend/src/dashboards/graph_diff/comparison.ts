import { singleTreeOf, treeOf } from "../../graph/build_tree";
import type { DiffTree } from "../../graph/diff_tree";
import { slicedFlowOf } from "../../graph/flow";
import { KindCounts } from "../../graph/kind_counts";
import { labelApart, ModelSide } from "../../graph/model_side";
import { KeyIndex } from "../../graph/node_key";
import type { Sliced } from "../../graph/sliced";
import type { DecodedAlignment } from "../../wire/comparison";
import type { StructureTables } from "../../wire/structure";

/** Two models, their alignment (none for one model alone) and the tree that both make. */
export interface Comparison {
  tree: DiffTree;
  alignment: DecodedAlignment | null;
  keys: KeyIndex;
  counts: KindCounts;
}

/** All that the picture needs, its data flow included, with pauses: models may be large. */
export function* comparisonOf(
  t: StructureTables,
  s: StructureTables | null,
  alignment: DecodedAlignment | null,
): Sliced<Comparison> {
  const teacher = new ModelSide(t);
  const student = s && new ModelSide(s);
  if (student) labelApart(teacher, student);
  const tree =
    student && alignment ? yield* treeOf(teacher, student, alignment) : yield* singleTreeOf(teacher);
  yield;
  const keys = yield* KeyIndex.of(tree);
  for (const side of ["teacher", "student"] as const) yield* slicedFlowOf(tree, side);
  // What the first rows of the outline ask for.
  for (const model of [teacher, student]) {
    model?.moduleParameters(0);
    yield;
  }
  return { tree, alignment, keys, counts: new KindCounts(tree) };
}
