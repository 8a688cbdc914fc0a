import type { PlanEntry, PlanStep } from "../wire/records";
import type { Side } from "./choice";

/**
 * What was written as intended for these two models, in the run of the student; the latest when there are
 * several. Null when nothing was.
 */
export function storedPlan(
  plans: readonly PlanEntry[],
  teacher: Side | null,
  student: Side | null,
): PlanStep | null {
  const entry = plans.find(
    (plan) =>
      plan.run === student?.choice.run &&
      plan.teacher === teacher?.choice.model &&
      plan.student === student.choice.model,
  );
  return entry?.steps.at(-1) ?? null;
}
