import { fetchMeasurement, type Measurement } from "./measurement";
import type { Address } from "./records";
import { getJson, type Parameters } from "./request";

export type Scale = "linear" | "log" | "signed" | "category";

/** One thing that was measured of a model, as `api/measurements` describes it. */
export interface MeasuredQuantity {
  name: string;
  label: string;
  unit: string;
  scale: Scale;
  /** How values of parts become that of the whole; "" when they do not. */
  sum: "" | "plain" | "squares" | "maximum" | "mean";
  /** Of a category: value k stands for `categories[k]`. */
  categories: string[];
  meaning: string;
  /** Range of finite values of modules over all steps; null when there is none. */
  minimum: number | null;
  maximum: number | null;
  least_positive: number | null;
  /** How many modules have a value; 0 when it is one of parameters alone. */
  modules: number;
  /** Positions in the listing's records. */
  records: number[];
}

interface MeasuredRecord {
  tag: string;
  step: number;
  wall_time: number;
  hash: string;
  structure_hash: string;
}

export interface MeasuredListing {
  records: MeasuredRecord[];
  quantities: MeasuredQuantity[];
}

/** Values of one quantity at one recorded step, by module path. */
export interface MeasuredValues {
  step: number;
  values: ReadonlyMap<string, number>;
}

/** What `api/measurements` takes. */
export function measuredParameters(run: string, model: string, variant: string): Parameters {
  return { run, model, variant: variant || undefined };
}

/** So many tables are kept; moving a slider to and fro reads none twice. */
const KEPT = 64;

/** All that was measured of one model of a run. Tables are read when they are asked for. */
export class MeasuredModel {
  private readonly tables = new Map<string, Promise<Measurement>>();

  constructor(
    private readonly run: string,
    readonly listing: MeasuredListing,
  ) {}

  static async fetch(run: string, model: string, variant: string, signal?: AbortSignal) {
    const parameters = measuredParameters(run, model, variant);
    return new MeasuredModel(run, await getJson<MeasuredListing>("api/measurements", parameters, signal));
  }

  /** A quantity that modules have values of. */
  quantity(name: string): MeasuredQuantity | undefined {
    return this.listing.quantities.find((quantity) => quantity.name === name && quantity.modules > 0);
  }

  /** Steps at which a quantity was recorded, ascending. */
  steps(name: string): number[] {
    const records = this.quantity(name)?.records ?? [];
    return [...new Set(records.map((record) => this.listing.records[record]!.step))];
  }

  /** The values at the recorded step nearest to `step`; null when the quantity was never recorded. */
  async valuesAt(name: string, step: number): Promise<MeasuredValues | null> {
    const record = this.nearest(name, step);
    if (!record) return null;
    const table = await this.table({ run: this.run, tag: record.tag, step: record.step, hash: record.hash });
    return { step: record.step, values: table.ofModules(name) };
  }

  /** The last of the records nearest to a step: of two series at one step the later one says more. */
  private nearest(name: string, step: number): MeasuredRecord | null {
    let best: MeasuredRecord | null = null;
    for (const position of this.quantity(name)?.records ?? []) {
      const record = this.listing.records[position]!;
      const [distance, least] = [
        Math.abs(record.step - step),
        best ? Math.abs(best.step - step) : Number.POSITIVE_INFINITY,
      ];
      if (distance < least || record.step === best?.step) best = record;
    }
    return best;
  }

  private table(address: Address): Promise<Measurement> {
    const key = `${address.tag}@${address.step}#${address.hash}`;
    let table = this.tables.get(key);
    if (!table) {
      table = fetchMeasurement(address);
      table.catch(() => this.tables.delete(key));
      if (this.tables.size >= KEPT) this.tables.delete(this.tables.keys().next().value!);
      this.tables.set(key, table);
    }
    return table;
  }
}
