import { StringPoolFields, TableFields } from "../gen/tb_plugin_structure/v1/columns_fields";
import { Columns } from "./columns";
import { readMessage } from "./message";
import type { Address } from "./records";
import { getBytes } from "./request";
import { Strings } from "./strings";

/** Quantities of a step, by path. */
export class Measurement {
  constructor(private readonly table: Columns) {}

  /** Module path → value; empty when the quantity was not measured. */
  ofModules(quantity: string): Map<string, number> {
    const found = new Map<string, number>();
    if (!this.table.has(quantity)) return found;
    const values = this.table.number(quantity);
    const subject = this.table.number("subject");
    for (let row = 0; row < this.table.rows; row++) {
      if (subject[row] === 0 && !Number.isNaN(values[row]))
        found.set(this.table.text("path", row), values[row]!);
    }
    return found;
  }
}

export async function fetchMeasurement(address: Address, signal?: AbortSignal): Promise<Measurement> {
  const part = (name: string) => getBytes("api/measurement", { ...address, part: name }, signal);
  const [strings, table] = await Promise.all([part("strings"), part("measurements")]);
  const pool = new Strings(readMessage(StringPoolFields, strings));
  return new Measurement(new Columns(readMessage(TableFields, table), pool));
}
