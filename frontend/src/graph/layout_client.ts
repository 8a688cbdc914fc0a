import type { LayoutAnswer, LayoutRequest } from "../workers/layout.worker";
import type { LevelLayout, LevelSpec } from "./level_layout";
import { spawnLayoutWorker } from "./spawn_layout_worker";

/** Lays out levels in a worker, so that the page never waits for dagre. */
export class LayoutClient {
  private readonly worker = spawnLayoutWorker();
  private readonly pending = new Map<number, (answer: LayoutAnswer) => void>();
  private next = 0;

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<LayoutAnswer>) => {
      this.pending.get(data.request)?.(data);
      this.pending.delete(data.request);
    };
    this.worker.onerror = (event) => {
      for (const [request, settle] of this.pending) settle({ request, layouts: [], error: event.message });
      this.pending.clear();
    };
  }

  /** `generation` tells one plan's spec numbers from another's. */
  layout(generation: number, specs: LevelSpec[]): Promise<LevelLayout[]> {
    const message: LayoutRequest = { request: this.next++, generation, specs };
    this.worker.postMessage(message);
    return new Promise((resolve, reject) => {
      this.pending.set(message.request, ({ layouts, error }) => {
        if (error) reject(new Error(`The graph could not be laid out: ${error}`));
        else resolve(layouts);
      });
    });
  }

  dispose(): void {
    this.worker.terminate();
  }
}
