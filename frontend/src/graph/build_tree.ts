import { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import type { DecodedAlignment } from "../wire/comparison";
import { DiffTree, NodeType } from "./diff_tree";
import { foldRuns } from "./fold";
import type { ModelSide } from "./model_side";

/** A node while the tree is built. */
export interface Draft {
  type: number;
  teacher: number;
  student: number;
  pair: number;
  stack: number;
  kind: PairKind;
  confidence: number;
  children: Draft[];
}

/** The tree of two aligned models. */
export function buildTree(teacher: ModelSide, student: ModelSide, alignment: DecodedAlignment): DiffTree {
  const { pairs, operatorPairs } = alignment;
  const [t, s, parent, kind] = ["teacher", "student", "parent", "kind"].map((name) => pairs.number(name));
  const stack = pairs.number("stack");
  const confidence = pairs.number("confidence");
  const drafts: Draft[] = [];
  for (let row = 0; row < pairs.rows; row++) {
    drafts.push({
      type: NodeType.CALL,
      teacher: t![row]!,
      student: s![row]!,
      pair: row,
      stack: stack[row]!,
      kind: kind![row]! as PairKind,
      confidence: confidence[row]!,
      children: [],
    });
    if (parent![row]! >= 0) drafts[parent![row]!]!.children.push(drafts[row]!);
  }
  const root = drafts[0];
  if (!root) throw new Error("The alignment is empty; reload the page.");

  const placed = {
    teacher: new Uint8Array(teacher.operatorCount),
    student: new Uint8Array(student.operatorCount),
  };
  const operators = new Map<Draft, Draft[]>();
  const place = (owner: Draft, operator: Draft) => {
    const list = operators.get(owner);
    if (list) list.push(operator);
    else operators.set(owner, [operator]);
  };
  const [ot, os, owner, okind] = ["teacher", "student", "pair", "kind"].map((name) =>
    operatorPairs.number(name),
  );
  const oconfidence = operatorPairs.number("confidence");
  for (let row = 0; row < operatorPairs.rows; row++) {
    const [inTeacher, inStudent] = [ot![row]!, os![row]!];
    if ((inTeacher < 0 || placed.teacher[inTeacher]) && (inStudent < 0 || placed.student[inStudent]))
      continue;
    if (inTeacher >= 0) placed.teacher[inTeacher] = 1;
    if (inStudent >= 0) placed.student[inStudent] = 1;
    place(
      drafts[owner![row]!]!,
      operatorDraft(inTeacher, inStudent, okind![row]! as PairKind, oconfidence[row]!),
    );
  }
  // Operators that the aligner left out belong to a call that has no counterpart.
  const callDraft = { teacher: firstByRow(drafts, "teacher"), student: firstByRow(drafts, "student") };
  for (const [side, model, only] of [
    ["teacher", teacher, PairKind.DELETED],
    ["student", student, PairKind.INSERTED],
  ] as const) {
    for (let operator = 0; operator < model.operatorCount; operator++) {
      if (placed[side][operator]) continue;
      const holder = callDraft[side].get(model.operatorCall[operator]!) ?? root;
      const both = holder.teacher >= 0 && holder.student >= 0;
      const kind = both || holder.kind !== PairKind.UNSPECIFIED ? only : PairKind.UNSPECIFIED;
      const [inTeacher, inStudent] = side === "teacher" ? [operator, -1] : [-1, operator];
      place(holder, operatorDraft(inTeacher, inStudent, kind, 1));
    }
  }
  return finish(root, operators, teacher, student);
}

/** The tree of one model alone: everything is on the teacher's side and has no kind. */
export function buildSingleTree(model: ModelSide): DiffTree {
  const drafts: Draft[] = [];
  for (let call = 0; call < model.callCount; call++) {
    drafts.push({
      type: NodeType.CALL,
      teacher: call,
      student: -1,
      pair: -1,
      stack: -1,
      kind: PairKind.UNSPECIFIED,
      confidence: 1,
      children: [],
    });
    const parent = model.callParent[call]!;
    if (parent >= 0) drafts[parent]!.children.push(drafts[call]!);
  }
  const root = drafts[0];
  if (!root) throw new Error(`The record of "${model.name}" holds no module call: the model never ran.`);
  const operators = new Map<Draft, Draft[]>();
  for (let operator = 0; operator < model.operatorCount; operator++) {
    const holder = drafts[model.operatorCall[operator]!]!;
    const list = operators.get(holder) ?? [];
    list.push(operatorDraft(operator, -1, PairKind.UNSPECIFIED, 1));
    operators.set(holder, list);
  }
  return finish(root, operators, model, null);
}

function operatorDraft(teacher: number, student: number, kind: PairKind, confidence: number): Draft {
  return { type: NodeType.OPERATOR, teacher, student, pair: -1, stack: -1, kind, confidence, children: [] };
}

function firstByRow(drafts: Draft[], side: "teacher" | "student"): Map<number, Draft> {
  const found = new Map<number, Draft>();
  for (const draft of drafts) if (!found.has(draft[side])) found.set(draft[side], draft);
  return found;
}

function finish(
  root: Draft,
  operators: Map<Draft, Draft[]>,
  teacher: ModelSide,
  student: ModelSide | null,
): DiffTree {
  const order: Draft[] = [];
  const parents: number[] = [];
  const ends: number[] = [];
  const visit = (draft: Draft, parent: number) => {
    const node = order.length;
    order.push(draft);
    parents.push(parent);
    ends.push(0);
    if (draft.type === NodeType.CALL) {
      const merged = interleave(draft.children, operators.get(draft) ?? [], teacher, student);
      draft.children = foldRuns(merged, teacher, student);
    }
    for (const child of draft.children) visit(child, node);
    ends[node] = order.length;
  };
  visit(root, -1);
  return new DiffTree(
    { teacher, student },
    Uint8Array.from(order, (draft) => draft.type),
    Int32Array.from(parents),
    Int32Array.from(ends),
    Int32Array.from(order, (draft) => draft.teacher),
    Int32Array.from(order, (draft) => draft.student),
    Int32Array.from(order, (draft) => draft.pair),
    Uint8Array.from(order, (draft) => draft.kind),
    Float32Array.from(order, (draft) => draft.confidence),
  );
}

/** Child calls keep their order; each operator goes before the first call that began after it, on either side. */
function interleave(
  calls: Draft[],
  operators: Draft[],
  teacher: ModelSide,
  student: ModelSide | null,
): Draft[] {
  if (!operators.length) return calls;
  const precedes = (operator: Draft, call: Draft) =>
    (operator.teacher >= 0 && call.teacher >= 0 && operator.teacher < teacher.operatorBegin[call.teacher]!) ||
    (student !== null &&
      operator.student >= 0 &&
      call.student >= 0 &&
      operator.student < student.operatorBegin[call.student]!);
  const merged: Draft[] = [];
  let at = 0;
  for (const call of calls) {
    while (at < operators.length && precedes(operators[at]!, call)) merged.push(operators[at++]!);
    merged.push(call);
  }
  return merged.concat(operators.slice(at));
}
