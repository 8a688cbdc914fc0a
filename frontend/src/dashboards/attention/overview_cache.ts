import { type AttentionOverview, fetchOverview } from "../../wire/attention";
import type { Address } from "../../wire/records";

/** Keeps the overviews of recent steps, so that moving back and forth in training fetches nothing twice. */
export class OverviewCache {
  private readonly kept = new Map<string, Promise<AttentionOverview>>();

  constructor(private readonly capacity = 24) {}

  get(address: Address): Promise<AttentionOverview> {
    const key = JSON.stringify(address);
    const known = this.kept.get(key);
    if (known !== undefined) {
      // Moved to the end: the oldest in the map is the one not used for longest.
      this.kept.delete(key);
      this.kept.set(key, known);
      return known;
    }
    const fetched = fetchOverview(address);
    this.kept.set(key, fetched);
    fetched.catch(() => this.kept.delete(key));
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= this.capacity) break;
      this.kept.delete(oldest);
    }
    return fetched;
  }
}
