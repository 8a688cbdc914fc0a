import type { PlanEntry, PlanStep } from "../wire/records";
import type { Side } from "./choice";

/** Where a writer puts its records when another one's event files are in the run. */
const SUB_RUN = "structure";

/**
 * What was written as intended for these two models, in the run of the student or its sub-run for records; the
 * latest when there are several. Null when nothing was.
 */
export function storedPlan(
  plans: readonly PlanEntry[],
  teacher: Side | null,
  student: Side | null,
): PlanStep | null {
  const run = student?.choice.run;
  if (run === undefined) return null;
  const runs = [run, run === "." || run === "" ? SUB_RUN : `${run}/${SUB_RUN}`];
  const steps = plans
    .filter(
      (plan) =>
        runs.includes(plan.run) &&
        plan.teacher === teacher?.choice.model &&
        plan.student === student?.choice.model,
    )
    .flatMap((plan) => plan.steps.at(-1) ?? []);
  return steps.sort((a, b) => a.wall_time - b.wall_time).at(-1) ?? null;
}
