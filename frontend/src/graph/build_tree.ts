import { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import type { DecodedAlignment } from "../wire/comparison";
import { DiffTree, NodeType } from "./diff_tree";
import { foldRuns } from "./fold";
import type { ModelSide } from "./model_side";
import { finishNow, type Sliced } from "./sliced";

/** Rows that are looked at between two pauses. */
const ROWS_A_SLICE = 2000;

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
  return finishNow(treeOf(teacher, student, alignment));
}

/** The tree of one model alone: everything is on the teacher's side and has no kind. */
export function buildSingleTree(model: ModelSide): DiffTree {
  return finishNow(singleTreeOf(model));
}

/** As buildTree, with pauses. */
export function* treeOf(
  teacher: ModelSide,
  student: ModelSide,
  alignment: DecodedAlignment,
): Sliced<DiffTree> {
  const { pairs, operatorPairs } = alignment;
  const [t, s, parent, kind] = ["teacher", "student", "parent", "kind"].map((name) => pairs.number(name));
  const stack = pairs.number("stack");
  const confidence = pairs.number("confidence");
  const drafts: Draft[] = [];
  for (let row = 0; row < pairs.rows; row++) {
    if (row % ROWS_A_SLICE === 0) yield;
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
    if (row % ROWS_A_SLICE === 0) yield;
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
      if (operator % ROWS_A_SLICE === 0) yield;
      if (placed[side][operator]) continue;
      const holder = callDraft[side].get(model.operatorCall[operator]!) ?? root;
      const both = holder.teacher >= 0 && holder.student >= 0;
      const kind = both || holder.kind !== PairKind.UNSPECIFIED ? only : PairKind.UNSPECIFIED;
      const [inTeacher, inStudent] = side === "teacher" ? [operator, -1] : [-1, operator];
      place(holder, operatorDraft(inTeacher, inStudent, kind, 1));
    }
  }
  return yield* finish(root, operators, teacher, student);
}

/** As buildSingleTree, with pauses. */
export function* singleTreeOf(model: ModelSide): Sliced<DiffTree> {
  const drafts: Draft[] = [];
  for (let call = 0; call < model.callCount; call++) {
    if (call % ROWS_A_SLICE === 0) yield;
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
    if (operator % ROWS_A_SLICE === 0) yield;
    const holder = drafts[model.operatorCall[operator]!]!;
    const list = operators.get(holder) ?? [];
    list.push(operatorDraft(operator, -1, PairKind.UNSPECIFIED, 1));
    operators.set(holder, list);
  }
  return yield* finish(root, operators, model, null);
}

function operatorDraft(teacher: number, student: number, kind: PairKind, confidence: number): Draft {
  return { type: NodeType.OPERATOR, teacher, student, pair: -1, stack: -1, kind, confidence, children: [] };
}

function firstByRow(drafts: Draft[], side: "teacher" | "student"): Map<number, Draft> {
  const found = new Map<number, Draft>();
  for (const draft of drafts) if (!found.has(draft[side])) found.set(draft[side], draft);
  return found;
}

function* finish(
  root: Draft,
  operators: Map<Draft, Draft[]>,
  teacher: ModelSide,
  student: ModelSide | null,
): Sliced<DiffTree> {
  const order: Draft[] = [];
  const parents: number[] = [];
  const ends: number[] = [];
  /** What is still to be visited within each node on the way down. */
  const stack: { node: number; children: Draft[]; next: number }[] = [];
  const enter = function* (draft: Draft): Sliced<void> {
    const node = order.length;
    order.push(draft);
    parents.push(stack.at(-1)?.node ?? -1);
    ends.push(node + 1);
    if (draft.type === NodeType.CALL) {
      const merged = interleave(draft.children, operators.get(draft) ?? [], teacher, student);
      draft.children = yield* foldRuns(merged, teacher, student);
    }
    if (draft.children.length) stack.push({ node, children: draft.children, next: 0 });
  };
  yield* enter(root);
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const draft = top.children[top.next++];
    if (!draft) {
      ends[top.node] = order.length;
      stack.pop();
    } else if (draft.type === NodeType.OPERATOR) {
      order.push(draft);
      parents.push(top.node);
      ends.push(order.length);
    } else yield* enter(draft);
    if (order.length % 64 === 0) yield;
  }
  yield;
  const count = order.length;
  const columns = {
    type: new Uint8Array(count),
    teacher: new Int32Array(count),
    student: new Int32Array(count),
    pair: new Int32Array(count),
    kind: new Uint8Array(count),
    confidence: new Float32Array(count),
  };
  const names = Object.keys(columns) as (keyof typeof columns)[];
  for (let node = 0; node < count; node++) {
    if (node % ROWS_A_SLICE === 0) yield;
    for (const name of names) columns[name][node] = order[node]![name];
  }
  return new DiffTree(
    { teacher, student },
    columns.type,
    Int32Array.from(parents),
    Int32Array.from(ends),
    columns.teacher,
    columns.student,
    columns.pair,
    columns.kind,
    columns.confidence,
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
