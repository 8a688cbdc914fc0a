import type { Difference } from "../../wire/variants";

/** Equal differences at places that differ in numbers only: the dropout of each of twelve layers is one line. */
export interface VariantGroup {
  kind: Difference["kind"];
  /** "layers.#.drop" for several places, the path itself for one. */
  place: string;
  text: string;
  members: Difference[];
}

export function variantGroups(differences: readonly Difference[]): VariantGroup[] {
  const groups = new Map<string, VariantGroup>();
  for (const difference of differences) {
    const { kind, subject, path, text } = difference;
    const pattern = path.replace(/\d+/g, "#");
    const key = JSON.stringify([kind, subject, pattern, text]);
    const group = groups.get(key);
    if (group) {
      group.members.push(difference);
      if (group.place !== path) group.place = pattern;
    } else groups.set(key, { kind, place: path, text, members: [difference] });
  }
  return [...groups.values()];
}
