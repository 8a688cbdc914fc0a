import type { Dimension } from "./audit_rows";

/** A dimension of one or both sides; null where the side has none of that name. */
export interface DimensionPair {
  readonly key: string;
  readonly name: string;
  readonly teacher: number | null;
  readonly student: number | null;
  readonly teacherText: string;
  readonly studentText: string;
}

/**
 * Pairs dimensions of the same name in order, the teacher's order first; names that occur twice are paired one by one.
 * Dimensions without a known meaning ("?") pair by position.
 */
export function pairDimensions(
  teacher: readonly Dimension[],
  student: readonly Dimension[],
): DimensionPair[] {
  const named = (dimensions: readonly Dimension[]) => {
    const seen = new Map<string, number>();
    return dimensions.map(({ name, size, text }, position) => {
      const count = seen.get(name) ?? 0;
      seen.set(name, count + 1);
      return {
        name: name === "?" ? `dimension ${position}` : name,
        size,
        text,
        key: `${name} ${name === "?" ? position : count}`,
      };
    });
  };
  const ofTeacher = named(teacher);
  const rest = new Map(named(student).map((dimension) => [dimension.key, dimension]));
  const pairs: DimensionPair[] = ofTeacher.map(({ key, name, size, text }) => {
    const other = rest.get(key);
    rest.delete(key);
    const studentText = other?.text ?? "";
    return { key, name, teacher: size, student: other?.size ?? null, teacherText: text, studentText };
  });
  for (const { key, name, size, text } of rest.values()) {
    pairs.push({ key, name, teacher: null, student: size, teacherText: "", studentText: text });
  }
  return pairs;
}
