/**
 * For each node of a directed graph, the length of the longest path that ends there. Edges that close a cycle
 * (possible once operators are lifted to their modules) are ignored. No recursion: chains may be long.
 */
export function longestPathRanks(count: number, from: Int32Array, to: Int32Array): Int32Array {
  const offsets = new Uint32Array(count + 1);
  for (const node of from) offsets[node + 1]!++;
  for (let node = 0; node < count; node++) offsets[node + 1]! += offsets[node]!;
  const next = offsets.slice();
  const targets = new Int32Array(from.length);
  from.forEach((node, edge) => {
    targets[next[node]!++] = to[edge]!;
  });

  // Depth-first order with an explicit stack; state 1 is "on the stack", 2 "done".
  const state = new Uint8Array(count);
  const order: number[] = [];
  const cursor = offsets.slice(0, count);
  const back = new Uint8Array(targets.length);
  for (let root = 0; root < count; root++) {
    if (state[root]) continue;
    const stack = [root];
    state[root] = 1;
    while (stack.length) {
      const node = stack.at(-1)!;
      const at = cursor[node]!;
      if (at === offsets[node + 1]!) {
        state[node] = 2;
        order.push(node);
        stack.pop();
        continue;
      }
      cursor[node] = at + 1;
      const target = targets[at]!;
      if (state[target] === 1) back[at] = 1;
      else if (!state[target]) {
        state[target] = 1;
        stack.push(target);
      }
    }
  }
  const ranks = new Int32Array(count);
  for (let index = order.length - 1; index >= 0; index--) {
    const node = order[index]!;
    for (let at = offsets[node]!; at < offsets[node + 1]!; at++) {
      if (!back[at]) ranks[targets[at]!] = Math.max(ranks[targets[at]!]!, ranks[node]! + 1);
    }
  }
  return ranks;
}

/** Beyond this many edges every edge that passes a layer counts as a skip. */
const MOST_EDGES_SEARCHED = 2000;

/**
 * Which edges are residual or skip connections: their end can also be reached from their start by a longer
 * way.
 */
export function findSkips(count: number, from: Int32Array, to: Int32Array, ranks: Int32Array): Uint8Array {
  const isSkip = Uint8Array.from(from, (node, edge) => (ranks[to[edge]!]! - ranks[node]! > 1 ? 1 : 0));
  if (from.length > MOST_EDGES_SEARCHED) return isSkip;
  const targets: number[][] = Array.from({ length: count }, () => []);
  from.forEach((node, edge) => {
    targets[node]!.push(to[edge]!);
  });
  isSkip.forEach((candidate, edge) => {
    if (!candidate) return;
    const goal = to[edge]!;
    const seen = new Set<number>();
    const open = targets[from[edge]!]!.filter((node) => node !== goal);
    let found = false;
    for (let node = open.pop(); node !== undefined && !found; node = open.pop()) {
      if (seen.has(node) || ranks[node]! >= ranks[goal]!) continue;
      seen.add(node);
      for (const target of targets[node]!) {
        if (target === goal) found = true;
        else open.push(target);
      }
    }
    if (!found) isSkip[edge] = 0;
  });
  return isSkip;
}
