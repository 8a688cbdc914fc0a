import { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import type { Draft } from "./build_tree";
import { NodeType } from "./diff_tree";
import type { ModelSide } from "./model_side";
import type { Sliced } from "./sliced";

/** A path segment that is a number: "layer.3", but not "layer3", whose siblings are stages of their own. */
const NUMBERED = /(^|\.)\d+(?=\.|$)/g;

/** Shorter runs of repeated blocks are shown one by one. */
const SHORTEST_RUN = 3;

/** Longest pattern that is looked for: a block and what its container does after it, as in `x = x + block(x)`. */
const LONGEST_PERIOD = 4;

/**
 * Folds runs of repeated siblings into one node each: the blocks of an aligned stack, blocks of one class at
 * numbered paths, and repeated calls of one module; also with the same operators after each block.
 */
export function* foldRuns(children: Draft[], teacher: ModelSide, student: ModelSide | null): Sliced<Draft[]> {
  const signatures: string[] = [];
  for (const draft of children) {
    signatures.push(signature(draft, teacher, student));
    if (signatures.length % 500 === 0) yield;
  }
  const folded: Draft[] = [];
  let at = 0;
  while (at < children.length) {
    const length = runLength(children, signatures, at);
    if (length) folded.push(foldOf(children.slice(at, at + length)));
    else folded.push(children[at]!);
    at += Math.max(1, length);
  }
  return folded;
}

/** How many siblings from `at` on repeat a pattern that begins with a block; 0 when too few do. */
function runLength(children: Draft[], signatures: string[], at: number): number {
  if (children[at]!.type !== NodeType.CALL) return 0;
  for (let period = 1; period <= LONGEST_PERIOD; period++) {
    let end = at + period;
    while (end < children.length && signatures[end] === signatures[end - period]) end++;
    // The last repetition may lack its tail: what follows the last block is often something else.
    const blocks = children.slice(at, end).filter((_, index) => index % period === 0).length;
    if (blocks >= SHORTEST_RUN) return end - at;
  }
  return 0;
}

function foldOf(run: Draft[]): Draft {
  const blocks = run.filter(({ type }) => type === NodeType.CALL);
  const kinds = new Set(blocks.map(({ kind }) => kind));
  const first = (side: "teacher" | "student") => blocks.find((draft) => draft[side] >= 0)?.[side] ?? -1;
  return {
    type: NodeType.FOLD,
    teacher: first("teacher"),
    student: first("student"),
    pair: -1,
    stack: run.find(({ stack }) => stack >= 0)?.stack ?? -1,
    kind: kinds.size === 1 ? blocks[0]!.kind : mixed(kinds),
    confidence: Math.min(...blocks.map(({ confidence }) => confidence)),
    children: run,
  };
}

/** A fold of several kinds speaks of what is paired in it; the missing blocks show in its two counts. */
function mixed(kinds: Set<PairKind>): PairKind {
  const order = [
    PairKind.RETYPED,
    PairKind.RECONFIGURED,
    PairKind.RESIZED,
    PairKind.MOVED,
    PairKind.IDENTICAL,
  ];
  return order.find((kind) => kinds.has(kind)) ?? PairKind.UNSPECIFIED;
}

/** What repeats when a run repeats. */
function signature(draft: Draft, teacher: ModelSide, student: ModelSide | null): string {
  if (draft.type !== NodeType.CALL) {
    return `operator ${draft.teacher >= 0 ? teacher.operatorName(draft.teacher) : student!.operatorName(draft.student)}`;
  }
  if (draft.stack >= 0) return `stack ${draft.stack}`;
  const of = (model: ModelSide | null, call: number) =>
    model && call >= 0 ? `${model.callPath(call).replace(NUMBERED, "$1#")} ${model.callClass(call)}` : "";
  const sides = `${of(teacher, draft.teacher)} | ${of(student, draft.student)}`;
  const sameModule =
    draft.teacher >= 0 ? teacher.callPath(draft.teacher) : (student?.callPath(draft.student) ?? "");
  // Unnumbered paths fold only as calls of one module.
  return sides.includes("#") ? sides : `${sides} ${sameModule}`;
}
