import type { DiffTree } from "../../graph/diff_tree";
import { parseQuery } from "../../graph/search_query";
import type { Sliced } from "../../graph/sliced";

/** What the search found, in the outline's order; `error` says what cannot be understood. */
export interface Matches {
  nodes: number[];
  set: Set<number>;
  error: string;
}

/** Searches the tree, with pauses. */
export function* matchesOf(tree: DiffTree, text: string): Sliced<Matches> {
  const query = parseQuery(text);
  const nodes: number[] = [];
  if (text.trim() && !query.error) {
    for (let node = 0; node < tree.count; node++) {
      if (query.matches(tree, node)) nodes.push(node);
      if (node % 500 === 0) yield;
    }
  }
  return { nodes, set: new Set(nodes), error: query.error };
}
