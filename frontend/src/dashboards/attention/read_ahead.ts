import type { Side } from "../../ui/choice";
import type { AttentionOverview, PlaneKind } from "../../wire/attention";
import type { OverviewCache } from "./overview_cache";
import { poolAhead } from "./pooled_planes";

/** Milliseconds after which a step counts as looked at, and its neighbours are read. */
const SETTLED_MS = 80;

/** Steps on either side of the one shown that are read ahead, one after the other. */
const STEPS_AHEAD = 3;

/** Reads the steps around the one shown while nothing else is asked for, so that moving there draws at once. */
export class ReadAhead {
  private soon: ReturnType<typeof setTimeout> | undefined;
  private round = 0;

  constructor(private readonly cache: OverviewCache) {}

  /** Another step, or another plane, is shown. `thumbnailSide` is asked when a step has arrived; 0 for none yet. */
  around(side: Side, steps: readonly number[], plane: PlaneKind, thumbnailSide: () => number): void {
    clearTimeout(this.soon);
    const round = ++this.round;
    const wanted = nearest(steps, steps.indexOf(side.address.step));
    this.soon = setTimeout(async () => {
      for (const step of wanted) {
        if (round !== this.round) return;
        const hash = side.choice.steps.find((record) => record.step === step)?.hash;
        if (hash === undefined) continue;
        const { run, tag } = side.choice;
        const pool = (overview: AttentionOverview) => {
          if (thumbnailSide() > 0) poolAhead(overview, plane, thumbnailSide());
        };
        await this.cache.get({ run, tag, step, hash }, plane).then(pool, () => {});
      }
    }, SETTLED_MS);
  }
}

/** The steps around a position, the nearest first and of two the later one. */
export function nearest(steps: readonly number[], index: number): number[] {
  const found: number[] = [];
  for (let distance = 1; index >= 0 && distance <= STEPS_AHEAD; distance++) {
    for (const at of [index + distance, index - distance]) {
      const step = steps[at];
      if (step !== undefined) found.push(step);
    }
  }
  return found;
}
