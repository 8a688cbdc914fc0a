import type { LevelSpec, Placed } from "./level_layout";

const RANK_GAP = 30;
const NODE_GAP = 18;
const SWEEPS = 4;

/**
 * A plain layered drawing for levels that are too large for dagre: time and memory grow with nodes and edges.
 * Within a layer, nodes are ordered by the mean position of their neighbours in the layer before or after.
 */
export function layoutLayers(spec: LevelSpec, w: Float32Array, h: Float32Array, ranks: Int32Array): Placed {
  const total = w.length;
  const depth = ranks.reduce((most, rank) => Math.max(most, rank), 0);
  const firstOut = spec.widths.length + spec.inPorts;
  const layers: number[][] = Array.from({ length: depth + 1 }, () => []);
  for (let node = 0; node < total; node++) layers[node >= firstOut ? depth : ranks[node]!]!.push(node);

  const before: number[][] = Array.from({ length: total }, () => []);
  const after: number[][] = Array.from({ length: total }, () => []);
  spec.from.forEach((from, edge) => {
    before[spec.to[edge]!]!.push(from);
    after[from]!.push(spec.to[edge]!);
  });
  const x = new Float32Array(total);
  const spread = (layer: number[]) => {
    const width = layer.reduce((sum, node) => sum + w[node]! + NODE_GAP, -NODE_GAP);
    let at = -width / 2;
    for (const node of layer) {
      x[node] = at + w[node]! / 2;
      at += w[node]! + NODE_GAP;
    }
  };
  layers.forEach(spread);
  const wish = new Float32Array(total);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const neighbours = sweep % 2 ? after : before;
    for (const layer of sweep % 2 ? layers.toReversed() : layers) {
      if (layer.length < 2) continue;
      for (const node of layer) {
        const near = neighbours[node]!;
        wish[node] = near.length ? near.reduce((sum, other) => sum + x[other]!, 0) / near.length : x[node]!;
      }
      layer.sort((a, b) => wish[a]! - wish[b]! || a - b);
      spread(layer);
    }
  }
  const y = new Float32Array(total);
  let top = 0;
  for (const layer of layers) {
    const height = layer.reduce((most, node) => Math.max(most, h[node]!), 0);
    for (const node of layer) y[node] = top + height / 2;
    top += height + RANK_GAP;
  }
  return { x, y, routes: Array.from(spec.from, () => null), labels: Array.from(spec.from, () => null) };
}
