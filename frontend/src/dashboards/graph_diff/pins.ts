import { type DiffTree, NodeType } from "../../graph/diff_tree";
import type { Intent } from "../../wire/comparison";

export interface PairOption {
  teacher: string;
  student: string;
}

/** The ways in which two chosen nodes can be paired: one gives the teacher's path, the other the student's. */
export function pairOptions(tree: DiffTree, selected: number, marked: number): PairOption[] {
  if (selected < 0 || marked < 0 || !tree.sides.student) return [];
  if (tree.type[selected] !== NodeType.CALL || tree.type[marked] !== NodeType.CALL) return [];
  const options: PairOption[] = [];
  for (const [t, s] of [
    [selected, marked],
    [marked, selected],
  ] as const) {
    if (!tree.hasSide(t, "teacher") || !tree.hasSide(s, "student")) continue;
    options.push({
      teacher: tree.sides.teacher.callPath(tree.teacher[t]!),
      student: tree.sides.student.callPath(tree.student[s]!),
    });
  }
  return options;
}

/** The student path of the pin that speaks of this node; undefined when none does. */
export function pinOf(tree: DiffTree, node: number, pins: Intent["pins"]): string | undefined {
  if (tree.type[node] !== NodeType.CALL) return undefined;
  const student = tree.student[node]! >= 0 ? tree.sides.student?.callPath(tree.student[node]!) : undefined;
  if (student !== undefined && student in pins) return student;
  const teacher = tree.teacher[node]! >= 0 ? tree.sides.teacher.callPath(tree.teacher[node]!) : undefined;
  if (teacher === undefined) return undefined;
  return Object.keys(pins).find((path) => [pins[path]].flat().includes(teacher));
}
