import { shortBytes, shortDuration, shortNumber } from "../../ui/format";

/** What a module costs, as the audit's columns name it. */
export interface Quantity {
  readonly id: string;
  readonly label: string;
  /** For the head of a column. */
  readonly short: string;
  readonly format: (value: number) => string;
  /** Whether a record holds it only when that was asked for. */
  readonly optional?: boolean;
}

export const QUANTITIES: readonly Quantity[] = [
  { id: "parameters", label: "parameters", short: "params", format: shortNumber },
  { id: "macs", label: "MACs", short: "MACs", format: shortNumber },
  { id: "activation_bytes", label: "activation memory", short: "activ.", format: shortBytes },
  { id: "duration_ns", label: "time", short: "time", format: shortDuration, optional: true },
  { id: "peak_bytes", label: "peak memory", short: "peak", format: shortBytes, optional: true },
  { id: "saved_bytes", label: "kept for backward", short: "kept", format: shortBytes, optional: true },
];
