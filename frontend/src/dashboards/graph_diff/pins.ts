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

/**
 * Reads the blocks that someone chose for a stack: for each block of the shorter side one of the longer side's, in
 * order; "-" or -1 for none. Throws an error that says what is wrong.
 */
export function parseBlocks(text: string, shorter: number, longer: number): number[] {
  const blocks = text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((word) => (word === "-" || word === "–" ? -1 : Number(word)));
  if (blocks.length !== shorter)
    throw new Error(`These are ${blocks.length} blocks; give one for each of the ${shorter}.`);
  const wrong = blocks.find((block) => !Number.isInteger(block) || block < -1 || block >= longer);
  if (wrong !== undefined) throw new Error(`There are blocks 0 to ${longer - 1}; write - for none.`);
  const used = blocks.filter((block) => block >= 0);
  if (used.some((block, index) => block < (used[index - 1] ?? 0)))
    throw new Error("Blocks are paired in order: the numbers must not fall.");
  return blocks;
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
