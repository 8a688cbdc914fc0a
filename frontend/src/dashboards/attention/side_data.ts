import { Resource } from "../../ui/resource";
import type { AttentionOverview, StoredHeads } from "../../wire/attention";
import type { HeadMatrix } from "./head_matrix";

/** What is read of one model at the step shown. */
export class SideData {
  readonly overview = new Resource<AttentionOverview>();
  /** The overview of the step to compare with, when one is chosen. */
  readonly base = new Resource<AttentionOverview>();
  readonly storedHeads = new Resource<StoredHeads[][]>();
  /** The chosen head. */
  readonly matrix = new Resource<HeadMatrix | null>();
}
