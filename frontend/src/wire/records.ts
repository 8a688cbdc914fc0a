import { getJson } from "./request";

/** Totals of a structure as `api/records` lists them; numbers are exact below 2^53. */
export interface Totals {
  modules: number;
  module_calls: number;
  operators: number;
  kernels: number;
  parameters: number;
  trainable_parameters: number;
  parameter_bytes: number;
  buffer_bytes: number;
  macs: number;
  kernels_without_formula: number;
  activation_bytes: number;
  duration_ns: number;
}

export interface RecordStep {
  step: number;
  wall_time: number;
  hash: string;
  /** Of a structure: equal for equal structures, whatever else the record says. */
  structure_hash?: string;
}

export interface StructureStep extends RecordStep {
  model_class: string;
  training: boolean;
  error: string | null;
  totals: Totals;
}

export interface StructureEntry {
  run: string;
  tag: string;
  /** "graph": written by SummaryWriter.add_graph and converted. */
  kind: "structure" | "outside" | "graph";
  model: string;
  variant: string;
  steps: StructureStep[];
}

export interface AttentionStep extends RecordStep {
  layers: number;
  heads: number;
}

export interface AttentionEntry {
  run: string;
  tag: string;
  model: string;
  example: string;
  steps: AttentionStep[];
}

export interface MeasurementStep extends RecordStep {
  structure_hash: string;
}

export interface MeasurementEntry {
  run: string;
  tag: string;
  model: string;
  steps: MeasurementStep[];
}

/** What was intended: as in `Intent`; "" and empty objects where nothing was said. */
export interface PlanStep extends RecordStep {
  policy: string;
  policies: Record<string, string | number[]>;
  pins: Record<string, string | string[] | null>;
}

export interface PlanEntry {
  run: string;
  tag: string;
  teacher: string;
  student: string;
  steps: PlanStep[];
}

export interface Problem {
  run: string;
  tag: string;
  step: number;
  message: string;
}

/** The answer of `api/records`: everything that can be shown. */
export interface Records {
  structures: StructureEntry[];
  attention: AttentionEntry[];
  measurements: MeasurementEntry[];
  plans: PlanEntry[];
  problems: Problem[];
}

export function fetchRecords(signal?: AbortSignal): Promise<Records> {
  return getJson<Records>("api/records", {}, signal);
}

/** Names one record: what every route takes. */
export interface Address {
  run: string;
  tag: string;
  step: number;
  hash: string;
}
