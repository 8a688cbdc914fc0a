import {
  type AttentionOverview,
  fetchHead,
  fetchRollout,
  fetchStoredHeads,
  fetchWindow,
  type StoredHeads,
} from "../../wire/attention";
import type { Address } from "../../wire/records";
import type { HeadChoice } from "./head_choice";
import { fullMatrix, type HeadMatrix, overviewMatrix } from "./head_matrix";

/** Heads up to this size are read whole, larger ones in parts. */
const WHOLE_CELLS = 1 << 20;
/** Heads that are kept: all of them have an overview of at most 64 × 64 cells, but a whole one may be large. */
const MOST_KEPT = 64;
const MOST_LARGE_KEPT = 8;

/** Reads single heads in the finest resolution that was stored, and keeps the last ones. */
export class HeadReader {
  private readonly stored = new Map<string, Promise<StoredHeads[][]>>();
  private readonly matrices = new Map<string, Promise<HeadMatrix | null>>();

  /** For each layer, the heads that are stored in full resolution. */
  storedHeads(address: Address): Promise<StoredHeads[][]> {
    const key = JSON.stringify(address);
    const known = this.stored.get(key) ?? fetchStoredHeads(address);
    this.stored.set(key, known);
    known.catch(() => this.stored.delete(key));
    return known;
  }

  /** A head in full resolution where it was stored, else its overview; null when there is none. */
  head(overview: AttentionOverview, choice: HeadChoice): Promise<HeadMatrix | null> {
    const key = JSON.stringify([overview.address, choice]);
    const known = this.matrices.get(key);
    if (known !== undefined) return known;
    const read = this.read(overview, choice);
    this.matrices.set(key, read);
    read.catch(() => this.matrices.delete(key));
    const record = overview.layers[choice.layer];
    const isLarge = (record?.queryLength ?? 0) * (record?.keyLength ?? 0) > 1e6;
    for (const oldest of this.matrices.keys()) {
      if (this.matrices.size <= (isLarge ? MOST_LARGE_KEPT : MOST_KEPT)) break;
      this.matrices.delete(oldest);
    }
    return read;
  }

  /** What reaches a layer from the input; null when there is no such layer. */
  async rollout(overview: AttentionOverview, layer: number): Promise<HeadMatrix | null> {
    const record = overview.layers[layer];
    if (record === undefined) return null;
    const matrix = await fetchRollout(overview.address, layer);
    const isFull = matrix.rows === record.queryLength;
    const blocks = isFull ? "" : `, over ${matrix.rows} × ${matrix.columns} blocks`;
    return {
      matrix,
      queries: record.queryLength,
      keys: record.keyLength,
      isFull,
      guarantee: `rollout from the first layer to layer ${layer}, half of each layer being its residual (Abnar and Zuidema 2020)${blocks}`,
      parts: null,
    };
  }

  private async read(overview: AttentionOverview, { layer, head }: HeadChoice): Promise<HeadMatrix | null> {
    const { address } = overview;
    const stored = await this.storedHeads(address);
    const entry = stored[layer]?.find(({ heads }) => heads.includes(head));
    const record = overview.layers[layer];
    if (entry === undefined || record === undefined) return overviewMatrix(overview, layer, head);
    const isSmall = record.queryLength * record.keyLength <= WHOLE_CELLS;
    if (entry.form === "matrix" || (entry.rows === undefined && isSmall)) {
      const values = await fetchHead(address, layer, head);
      const full = fullMatrix(overview, layer, values, entry.guarantee);
      if (full !== null) return full;
    }
    return overviewMatrix(overview, layer, head, {
      guarantee: entry.guarantee,
      rows: entry.rows ?? null,
      read: (part, rowCells, columnCells, signal, filter) =>
        fetchWindow(address, { layer, head }, part, rowCells, columnCells, signal, filter),
    });
  }
}
