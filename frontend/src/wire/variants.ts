import type { Address } from "./records";
import { getJson, type Parameters } from "./request";

/** One thing that two passes of a model did differently; see `api/variants`. */
export interface Difference {
  kind: "first" | "second" | "changed";
  subject: "module" | "call" | "operator";
  /** Module path; "" for the model. */
  path: string;
  text: string;
  /** Rows of `module_calls`, or of `operators`, in both records; -1 where it did not run. */
  rows: [number, number];
}

export interface VariantComparison {
  same_model: boolean;
  first: string;
  second: string;
  summary: string;
  differences: Difference[];
  left_out: number;
}

export const VARIANTS_ROUTE = "api/variants";

export function variantParameters(first: Address, second: Address): Parameters {
  return {
    t_run: first.run,
    t_tag: first.tag,
    t_step: first.step,
    s_run: second.run,
    s_tag: second.tag,
    s_step: second.step,
  };
}

export function fetchVariants(
  first: Address,
  second: Address,
  signal?: AbortSignal,
): Promise<VariantComparison> {
  return getJson<VariantComparison>(VARIANTS_ROUTE, variantParameters(first, second), signal);
}
