import type { AttentionState } from "./attention_state";

/** The tab's answer in one sentence; null while it is computed. */
export function summary(state: AttentionState): string | null {
  const teacher = state.overview("teacher");
  if (teacher === undefined) return null;
  const size = (name: "teacher" | "student") => {
    const layers = state.overview(name)?.layers ?? [];
    const captured = layers.filter((layer) => layer.notCaptured === "");
    const heads = captured.reduce((sum, layer) => sum + layer.heads, 0);
    const missing = layers.length - captured.length;
    return `${captured.length} layers, ${heads} heads${missing > 0 ? ` (${missing} not captured)` : ""}`;
  };
  const { step } = teacher.address;
  if (state.side("student") === null) return `${teacher.header.model}: ${size("teacher")} at step ${step}.`;
  const student = state.overview("student");
  const { status, error, value: comparison } = state.comparison.state.value;
  if (student === undefined) return null;
  const sizes = `teacher ${size("teacher")}, student ${size("student")}`;
  if (status === "failed")
    return `At step ${step}, ${sizes}. The heads were not compared: ${error?.message ?? ""}`;
  if (comparison === undefined) return null;
  const distances = comparison.layer_pairs
    .map(([t, s]) => comparison.layer_distances[t]?.[s])
    .filter((distance): distance is number => typeof distance === "number");
  if (distances.length === 0) return `At step ${step}, ${sizes}. No two layers can be compared.`;
  const mean = distances.reduce((sum, distance) => sum + distance, 0) / distances.length;
  const closest = Math.min(...distances);
  const best = comparison.layer_pairs[distances.indexOf(closest)];
  return (
    `At step ${step} the student's heads are ${mean.toFixed(2)} from the teacher's ` +
    `(${comparison.measure} distance, 0 is the same, over ${distances.length} layer pairs)` +
    (best === undefined
      ? ""
      : `; closest: teacher layer ${best[0]} and student layer ${best[1]} at ${closest.toFixed(2)}`) +
    `. ${sizes[0]?.toUpperCase()}${sizes.slice(1)}.`
  );
}
