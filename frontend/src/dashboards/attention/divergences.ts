import { useEffect, useState } from "preact/hooks";
import { fetchDivergences, type HeadDivergence } from "../../wire/attention";
import type { Address } from "../../wire/records";
import type { AttentionState } from "./attention_state";
import { MOST_STEPS, type Point, thin } from "./history";

/** Pairs of heads that are asked for at once. */
const MOST_PAIRS = 128;

/** Divergences of the matched heads of two layers, at each step that has arrived. */
export interface Divergences {
  at(step: number, teacherHead: number, studentHead: number): HeadDivergence | undefined;
  /** Over steps, for one pair of heads. */
  course(teacherHead: number, studentHead: number): Point[];
}

/** The exact divergence of the heads shown: at the step shown first, then at the others, one after the other. */
export function useDivergences(
  state: AttentionState,
  layers: readonly [number, number],
  heads: readonly (readonly [number, number])[],
): Divergences {
  const [found, setFound] = useState<{ key: string; steps: Map<number, HeadDivergence[]> }>({
    key: "",
    steps: new Map(),
  });
  const asked = heads.slice(0, MOST_PAIRS);
  const teacher = state.side("teacher");
  const student = state.side("student");
  const current = teacher?.address.step ?? 0;
  const runs = [teacher?.choice.run, teacher?.choice.tag, student?.choice.run, student?.choice.tag];
  const key = JSON.stringify([runs, layers, asked]);
  const steps = state.steps.value;
  useEffect(() => {
    if (teacher === null || student === null || asked.length === 0) return;
    const abort = new AbortController();
    const known = found.key === key ? found.steps : new Map<number, HeadDivergence[]>();
    const address = (side: typeof teacher, step: number): Address | null => {
      const hash = side.choice.steps.find((record) => record.step === step)?.hash;
      return hash === undefined ? null : { run: side.choice.run, tag: side.choice.tag, step, hash };
    };
    const read = async () => {
      for (const step of [current, ...thin(steps, MOST_STEPS)]) {
        const [ofTeacher, ofStudent] = [address(teacher, step), address(student, step)];
        if (known.has(step) || ofTeacher === null || ofStudent === null) continue;
        const at = await fetchDivergences(ofTeacher, ofStudent, layers, asked, abort.signal);
        if (abort.signal.aborted) return;
        known.set(step, at);
        setFound({ key, steps: new Map(known) });
      }
    };
    // Where a step's heads differ in number, the ones before it stay.
    read().catch(() => {});
    return () => abort.abort();
  }, [key, current, steps]);
  const arrived = found.key === key ? found.steps : new Map<number, HeadDivergence[]>();
  const pick = (all: readonly HeadDivergence[] | undefined, t: number, s: number) =>
    all?.find(([teacherHead, studentHead]) => teacherHead === t && studentHead === s);
  return {
    at: (step, t, s) => pick(arrived.get(step), t, s),
    course: (t, s) =>
      [...arrived.keys()]
        .sort((a, b) => a - b)
        .map((step) => ({ x: step, y: pick(arrived.get(step), t, s)?.[2] ?? Number.NaN })),
  };
}
