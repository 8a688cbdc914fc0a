import { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import type { Draft } from "./build_tree";
import { NodeType } from "./diff_tree";
import type { ModelSide } from "./model_side";

/** A path segment that is a number: "layer.3", but not "layer3", whose siblings are stages of their own. */
const NUMBERED = /(^|\.)\d+(?=\.|$)/g;

/** Shorter runs of repeated blocks are shown one by one. */
const SHORTEST_RUN = 3;

/**
 * Folds runs of repeated siblings into one node each: the blocks of an aligned stack, blocks of one class at
 * numbered paths, and repeated calls of one module.
 */
export function foldRuns(children: Draft[], teacher: ModelSide, student: ModelSide | null): Draft[] {
  const folded: Draft[] = [];
  let at = 0;
  while (at < children.length) {
    const sign = signature(children[at]!, teacher, student);
    let end = at + 1;
    while (sign !== null && end < children.length && signature(children[end]!, teacher, student) === sign)
      end++;
    const run = children.slice(at, end);
    if (run.length >= SHORTEST_RUN) folded.push(foldOf(run));
    else folded.push(...run);
    at = end;
  }
  return folded;
}

function foldOf(run: Draft[]): Draft {
  const kinds = new Set(run.map(({ kind }) => kind));
  const first = (side: "teacher" | "student") => run.find((draft) => draft[side] >= 0)?.[side] ?? -1;
  return {
    type: NodeType.FOLD,
    teacher: first("teacher"),
    student: first("student"),
    pair: -1,
    stack: run.find(({ stack }) => stack >= 0)?.stack ?? -1,
    kind: kinds.size === 1 ? run[0]!.kind : mixed(kinds),
    confidence: Math.min(...run.map(({ confidence }) => confidence)),
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

/** Equal signatures fold together; null never folds. */
function signature(draft: Draft, teacher: ModelSide, student: ModelSide | null): string | null {
  if (draft.type !== NodeType.CALL) return null;
  if (draft.stack >= 0) return `stack ${draft.stack}`;
  const of = (model: ModelSide | null, call: number) =>
    model && call >= 0 ? `${model.callPath(call).replace(NUMBERED, "$1#")} ${model.callClass(call)}` : "";
  const sides = `${of(teacher, draft.teacher)} | ${of(student, draft.student)}`;
  const sameModule =
    draft.teacher >= 0 ? teacher.callPath(draft.teacher) : (student?.callPath(draft.student) ?? "");
  // Unnumbered paths fold only as calls of one module.
  return sides.includes("#") ? sides : `${sides} ${sameModule}`;
}
