import { lastAtMost } from "./last_at_most";
import type { Placed } from "./level_layout";

/** Sizes of the nodes of a drawing. */
export interface Sizes {
  w: Float32Array;
  h: Float32Array;
}

interface Layer {
  y: number;
  height: number;
  newHeight: number;
  newY: number;
}

/**
 * A layered drawing for nodes that have grown: the same layers in the same order, moved apart as far as is needed.
 *
 * Opening a node changes the sizes in all levels around it and nothing else. Making those drawings anew would take
 * much longer, and would move what nobody touched.
 */
export function stretch(
  base: Placed,
  from: Sizes,
  to: Sizes,
  ends: { from: Int32Array; to: Int32Array },
): Placed {
  const layers = layersOf(base, from, to);
  const mapY = vertically(layers);
  const mapX = horizontally(base, from, to, layers);
  const x = base.x.map(mapX);
  const y = base.y.map(mapY);
  const onBorder = (node: number, px: number, py: number): [number, number] => {
    const side = py >= base.y[node]! ? 1 : -1;
    const share = from.w[node]! > 0 ? (px - base.x[node]!) / from.w[node]! : 0;
    return [x[node]! + share * to.w[node]!, y[node]! + (side * to.h[node]!) / 2];
  };
  const routes = base.routes.map((route, edge) => {
    if (!route) return null;
    const moved = route.map((value, at) => (at % 2 ? mapY(value) : mapX(value)));
    const last = route.length - 2;
    moved.splice(0, 2, ...onBorder(ends.from[edge]!, route[0]!, route[1]!));
    moved.splice(last, 2, ...onBorder(ends.to[edge]!, route[last]!, route[last + 1]!));
    return moved;
  });
  const labels = base.labels.map((label): [number, number] | null =>
    label ? [mapX(label[0]), mapY(label[1])] : null,
  );
  return { x, y, routes, labels };
}

/** Nodes of one layer have their middles at one height. */
function layersOf(base: Placed, from: Sizes, to: Sizes): Layer[] {
  const found = new Map<number, Layer>();
  base.y.forEach((y, node) => {
    const key = Math.round(y);
    const layer = found.get(key) ?? { y, height: 0, newHeight: 0, newY: y };
    layer.height = Math.max(layer.height, from.h[node]!);
    layer.newHeight = Math.max(layer.newHeight, to.h[node]!);
    found.set(key, layer);
  });
  const layers = [...found.values()].sort((a, b) => a.y - b.y);
  layers.forEach((layer, index) => {
    const before = layers[index - 1];
    const grown = (layer.newHeight - layer.height) / 2;
    layer.newY = before
      ? before.newY + layer.y - before.y + grown + (before.newHeight - before.height) / 2
      : layer.y + grown;
  });
  return layers;
}

/** Where a height goes: within a layer in proportion, between layers with the distance to the one above. */
function vertically(layers: Layer[]): (y: number) => number {
  const tops = layers.map((layer) => layer.y - layer.height / 2);
  return (y) => {
    const layer = layers[lastAtMost(tops, y)];
    if (!layer) return y;
    const away = y - layer.y;
    const half = layer.height / 2;
    if (Math.abs(away) <= half && half > 0) return layer.newY + away * (layer.newHeight / layer.height);
    return layer.newY + away + (Math.sign(away) * (layer.newHeight - layer.height)) / 2;
  };
}

/**
 * Where a place goes sideways. All that lay at one place stays at one, so that straight lines stay straight; a place
 * moves to the right until no neighbours in a layer overlap.
 */
function horizontally(base: Placed, from: Sizes, to: Sizes, layers: Layer[]): (x: number) => number {
  const items = new Map<number, { x: number; grown: number }[]>(
    layers.map((layer) => [Math.round(layer.y), []]),
  );
  base.x.forEach((x, node) => {
    items.get(Math.round(base.y[node]!))!.push({ x, grown: (to.w[node]! - from.w[node]!) / 2 });
  });
  // Lines that pass by have their bends in the middles of layers.
  for (const route of base.routes) {
    for (let at = 2; route && at < route.length - 2; at += 2) {
      items.get(Math.round(route[at + 1]!))?.push({ x: route[at]!, grown: 0 });
    }
  }
  const needed = new Map<number, [before: number, distance: number][]>();
  for (const layer of items.values()) {
    layer.sort((a, b) => a.x - b.x);
    layer.forEach((item, index) => {
      const before = layer[index - 1];
      if (!before || before.grown + item.grown <= 0 || place(before.x) === place(item.x)) return;
      const list = needed.get(place(item.x)) ?? [];
      list.push([place(before.x), item.x - before.x + before.grown + item.grown]);
      needed.set(place(item.x), list);
    });
  }
  const places = [...new Set([...items.values()].flat().map(({ x }) => place(x)))].sort((a, b) => a - b);
  const moved = new Map<number, number>();
  places.forEach((at, index) => {
    const before = places[index - 1];
    let goal = before === undefined ? at : moved.get(before)! + at - before;
    for (const [other, distance] of needed.get(at) ?? []) goal = Math.max(goal, moved.get(other)! + distance);
    moved.set(at, goal);
  });
  return (x) => {
    const known = moved.get(place(x));
    if (known !== undefined) return known;
    // Between two places, or outside of all.
    let low = 0;
    let high = places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[middle]! <= x) low = middle + 1;
      else high = middle;
    }
    const [left, right] = [places[low - 1], places[low]];
    if (left === undefined) return right === undefined ? x : moved.get(right)! + x - right;
    if (right === undefined) return moved.get(left)! + x - left;
    const share = (x - left) / (right - left);
    return moved.get(left)! + share * (moved.get(right)! - moved.get(left)!);
  };
}

/** Places closer than half a pixel are one. */
function place(x: number): number {
  return Math.round(x * 2) / 2;
}
