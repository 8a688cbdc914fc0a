import type { SideName } from "./audit_rows";

const MARK = "_measured_";

/** The id of the column with a measured quantity of a side. */
export function measuredColumn(side: SideName, quantity: string): string {
  return side + MARK + quantity;
}

/** The quantities that some columns show, each once. */
export function measuredNames(columns: Iterable<string>): string[] {
  const names = new Set<string>();
  for (const id of columns) {
    const at = id.indexOf(MARK);
    if (at > 0) names.add(id.slice(at + MARK.length));
  }
  return [...names];
}
