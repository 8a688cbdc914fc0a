import { type LevelLayout, type LevelSpec, layoutLevel, type Placed } from "../graph/level_layout";

/** What the page asks: specs, inner ones first; `generation` changes when numbers of specs start anew. */
export interface LayoutRequest {
  request: number;
  generation: number;
  specs: LevelSpec[];
}

export interface LayoutAnswer {
  request: number;
  layouts: LevelLayout[];
  error: string;
}

const sizes = new Map<number, { width: number; height: number }>();
/** Drawings with everything closed, by outline. */
const closed = new Map<number, Placed>();
let generation = -1;

self.onmessage = ({ data }: MessageEvent<LayoutRequest>) => {
  if (data.generation !== generation) {
    sizes.clear();
    closed.clear();
    generation = data.generation;
  }
  const answer: LayoutAnswer = { request: data.request, layouts: [], error: "" };
  try {
    for (const spec of data.specs) {
      const layout = layoutLevel(spec, (id) => sizes.get(id)!, closed);
      sizes.set(layout.id, { width: layout.width, height: layout.height });
      answer.layouts.push(layout);
    }
  } catch (error) {
    answer.error = String(error);
  }
  const buffers = answer.layouts.flatMap(({ x, y, w, h, points, starts, labelX, labelY, skips, isLane }) =>
    [x, y, w, h, points, starts, labelX, labelY, skips, isLane].map((array) => array.buffer as ArrayBuffer),
  );
  self.postMessage(answer, { transfer: [...new Set(buffers)] });
};
