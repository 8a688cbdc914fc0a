import type { DiffTree } from "../../graph/diff_tree";
import { type KeyIndex, nodeKey } from "../../graph/node_key";
import { firstOpening } from "../../graph/opening";

/** Opened nodes are written into the address one by one up to this length. */
const LONGEST_OPEN = 1500;
const MOST_NAMED = 100;

/** How the address says what is open: "" for what is open at first, and for what would be too long. */
export function openText(tree: DiffTree, open: ReadonlySet<number>): string {
  const initial = firstOpening(tree);
  if (open.size === initial.size && [...initial].every((node) => open.has(node))) return "";
  if (open.size > MOST_NAMED) return open.size === tree.expandableCount ? "all" : "";
  const text = [...open]
    .filter((node) => node > 0)
    .map((node) => nodeKey(tree, node))
    .join(",");
  return text.length <= LONGEST_OPEN ? text || "T:" : "";
}

/** What is open by a text of the address; names that are not there are left out. */
export function openedBy(text: string, tree: DiffTree, keys: KeyIndex): Set<number> {
  if (!text) return firstOpening(tree);
  if (text === "all") {
    return new Set(
      Array.from({ length: tree.count }, (_, node) => node).filter((node) => tree.isExpandable(node)),
    );
  }
  return new Set(
    text
      .split(",")
      .map((key) => keys.find(key))
      .filter((node) => node >= 0),
  );
}
