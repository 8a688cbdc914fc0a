import type { Address } from "./records";
import { getJson } from "./request";
import { variantParameters } from "./variants";

/** A value that a model made and the loss used; see `api/compared`. */
export interface ComparedFeature {
  path: string;
  operator: string;
  shape: number[];
  /** Rows of `module_calls` and of `operators` in the model's record; -1 where unknown. */
  rows: [number, number];
}

export interface ComparedSide {
  features: ComparedFeature[];
  shape: number[];
}

export interface ComparedFeatures {
  operator: string;
  source: string;
  teacher: ComparedSide;
  student: ComparedSide;
}

/** Which features of two models the loss of the recorded step compared. */
export function fetchCompared(
  teacher: Address,
  student: Address,
  signal?: AbortSignal,
): Promise<{ recorded: boolean; pairs: ComparedFeatures[] }> {
  return getJson("api/compared", variantParameters(teacher, student), signal);
}
