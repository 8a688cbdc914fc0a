import { type AttentionOverview, fetchOverview, type PlaneKind, withMass } from "../../wire/attention";
import type { Address } from "../../wire/records";

/** Keeps the overviews of recent steps, so that moving back and forth in training fetches nothing twice. */
export class OverviewCache {
  private readonly kept = new Map<string, Promise<AttentionOverview>>();

  constructor(private readonly capacity = 24) {}

  /** An overview that has the plane; only what is missing of it is read. */
  get(address: Address, plane: PlaneKind = "maximum"): Promise<AttentionOverview> {
    const read = () => (plane === "mass" ? this.get(address).then(withMass) : fetchOverview(address));
    return this.known(JSON.stringify([address, plane]), read);
  }

  private known(key: string, read: () => Promise<AttentionOverview>): Promise<AttentionOverview> {
    const found = this.kept.get(key) ?? read();
    // Put at the end: the oldest in the map is the one not used for longest.
    this.kept.delete(key);
    this.kept.set(key, found);
    found.catch(() => this.kept.delete(key));
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= this.capacity) break;
      this.kept.delete(oldest);
    }
    return found;
  }
}
