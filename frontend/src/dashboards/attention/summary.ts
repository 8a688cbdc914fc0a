import { counted } from "../../ui/counted";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { brokenHeads } from "./left_out";

/** The tab's answer in one sentence; null while it is computed. */
export function summary(state: AttentionState): string | null {
  const teacher = state.overview("teacher");
  if (teacher === undefined) return null;
  const { step } = teacher.address;
  if (state.side("student") === null)
    return `At step ${step}, ${teacher.header.model} has ${size(state, "teacher")}.${brokenText(state, "teacher")}`;
  const { status, error, value: comparison } = state.comparison.state.value;
  if (status === "failed") return `The heads were not compared: ${error?.message ?? ""}`;
  if (comparison === undefined || state.overview("student") === undefined) return null;
  const pairs = comparison.layer_pairs.flatMap(([t, s]) => {
    const distance = comparison.layer_distances[t]?.[s];
    return typeof distance === "number" ? [{ t, s, distance }] : [];
  });
  const broken = SIDES.map((name) => brokenText(state, name)).join("");
  const sizes = `Teacher: ${size(state, "teacher")}; student: ${size(state, "student")}.`;
  const [first, ...rest] = pairs;
  if (first === undefined)
    return `At step ${step} no layer of the student can be compared with one of the teacher. ${sizes}${broken}`;
  const mean = pairs.reduce((sum, { distance }) => sum + distance, 0) / pairs.length;
  const closest = rest.reduce((best, pair) => (pair.distance < best.distance ? pair : best), first);
  const missing = sizes.includes("not captured") ? ` ${sizes}` : "";
  return (
    `At step ${step} the student looks ${mean.toFixed(2)} away from the teacher ` +
    `(${comparison.measure} distance over ${counted(pairs.length, "layer pair")}, 0 is the same); ` +
    `closest is student layer ${closest.s} to teacher layer ${closest.t}, ${closest.distance.toFixed(2)}.${missing}${broken}`
  );
}

function brokenText(state: AttentionState, name: SideName): string {
  const overview = state.overview(name);
  const { broken, heads } = overview === undefined ? { broken: 0, heads: 0 } : brokenHeads(overview);
  return broken > 0 ? ` ${broken} of ${counted(heads, "head")} of the ${name} hold NaN or infinity.` : "";
}

function size(state: AttentionState, name: SideName): string {
  const layers = state.overview(name)?.layers ?? [];
  const captured = layers.filter((layer) => layer.notCaptured === "");
  const heads = captured.reduce((sum, layer) => sum + layer.heads, 0);
  const missing = layers.length - captured.length;
  const sizes = `${counted(captured.length, "layer")}, ${counted(heads, "head")}`;
  return missing > 0 ? `${sizes} (${missing} not captured)` : sizes;
}
