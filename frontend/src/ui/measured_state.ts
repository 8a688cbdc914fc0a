import { computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { MeasuredModel, type MeasuredQuantity, type MeasuredValues } from "../wire/measured";
import type { Side } from "./choice";
import { MeasuredScale } from "./measured_scale";
import { Resource } from "./resource";
import type { Session } from "./session";
import { palette } from "./tokens";

type SideName = "teacher" | "student";
const SIDES = ["teacher", "student"] as const;

/** What is shown of a quantity: its values on each side, at the recorded steps nearest to the one chosen. */
export interface ShownQuantity {
  quantity: MeasuredQuantity;
  teacher: MeasuredValues | null;
  student: MeasuredValues | null;
}

/** The quantities that were measured of the two models, and the values of some of them at a step. */
export class MeasuredState {
  /** All quantities that modules of either model have, in the order they were first written. */
  readonly quantities: ReadonlySignal<MeasuredQuantity[]>;
  /** The step asked for; null for the latest. */
  readonly step: ReadonlySignal<number | null>;
  /** Values of the quantities that were asked for, by name; they stay while others are read. */
  readonly shown = signal<ReadonlyMap<string, ShownQuantity>>(new Map());
  readonly isLoading = signal(false);
  /** What went wrong; "" when nothing did. */
  readonly trouble = signal("");
  private readonly models: Record<SideName, Resource<MeasuredModel | null>> = {
    teacher: new Resource(),
    student: new Resource(),
  };
  private generation = 0;

  /** `wanted`: names of the quantities whose values are shown. `stepText` lives in the address. */
  constructor(
    private readonly session: Session,
    wanted: ReadonlySignal<readonly string[]>,
    readonly stepText: Signal<string>,
  ) {
    for (const side of SIDES) {
      const source = computed(() => JSON.stringify(this.sourceOf(session[side].value)));
      effect(() => {
        const from = JSON.parse(source.value) as { run: string; model: string; variant: string } | null;
        const { run, model, variant } = from ?? { run: "", model: "", variant: "" };
        void this.models[side].load("Reading what was measured", async (abort) =>
          from ? MeasuredModel.fetch(run, model, variant, abort) : null,
        );
      });
    }
    this.quantities = computed(() => {
      const found = new Map<string, MeasuredQuantity>();
      for (const side of SIDES) {
        for (const quantity of this.models[side].value?.listing.quantities ?? [])
          if (quantity.modules > 0 && !found.has(quantity.name)) found.set(quantity.name, quantity);
      }
      return [...found.values()];
    });
    this.step = computed(() => {
      const text = this.stepText.value;
      return /^-?\d+$/.test(text) ? Number(text) : null;
    });
    effect(() => {
      const step = this.step.value;
      const names = wanted.value;
      const models = { teacher: this.models.teacher.value, student: this.models.student.value };
      void this.read(names, step, models);
    });
  }

  /** Steps at which either model has a quantity, ascending. */
  stepsOf(name: string): number[] {
    const steps = SIDES.flatMap((side) => this.models[side].value?.steps(name) ?? []);
    return [...new Set(steps)].sort((a, b) => a - b);
  }

  /** The scale of a quantity, over all steps and both models. */
  scaleOf(quantity: MeasuredQuantity): MeasuredScale {
    const same = SIDES.flatMap((side) => this.models[side].value?.quantity(quantity.name) ?? []);
    const some = (values: (number | null)[]) => values.filter((value) => value !== null);
    const least = (values: (number | null)[]) => (some(values).length ? Math.min(...some(values)) : null);
    const largest = some(same.map(({ maximum }) => maximum));
    const range = {
      minimum: least(same.map(({ minimum }) => minimum)),
      maximum: largest.length ? Math.max(...largest) : null,
      leastPositive: least(same.map(({ least_positive }) => least_positive)),
    };
    return new MeasuredScale(quantity, range, palette(this.session.dark.value));
  }

  /** Values of every quantity at the chosen step, for one side: what an inspector lists. */
  async everything(side: SideName): Promise<[MeasuredQuantity, MeasuredValues][]> {
    const model = this.models[side].state.peek().value;
    if (!model) return [];
    const found: [MeasuredQuantity, MeasuredValues][] = [];
    for (const quantity of model.listing.quantities) {
      if (!quantity.modules) continue;
      const values = await model.valuesAt(quantity.name, this.step.peek() ?? Number.MAX_SAFE_INTEGER);
      if (values) found.push([quantity, values]);
    }
    return found;
  }

  /** Moves to the next or previous step of a quantity. */
  moveStep(name: string, by: number): void {
    const steps = this.stepsOf(name);
    const at = nearestIndex(steps, this.step.peek());
    const next = steps[Math.max(0, Math.min(steps.length - 1, at + by))];
    if (next !== undefined) this.stepText.value = next === steps.at(-1) ? "" : String(next);
  }

  private async read(
    names: readonly string[],
    step: number | null,
    models: Record<SideName, MeasuredModel | null | undefined>,
  ): Promise<void> {
    const generation = ++this.generation;
    const wanted = this.quantities.peek().filter(({ name }) => names.includes(name));
    if (!wanted.length) {
      this.shown.value = new Map();
      return;
    }
    this.isLoading.value = true;
    try {
      const found = new Map<string, ShownQuantity>();
      for (const quantity of wanted) {
        // "The latest" is one step for both models.
        const at = step ?? this.stepsOf(quantity.name).at(-1) ?? 0;
        const of = (side: SideName) => models[side]?.valuesAt(quantity.name, at) ?? null;
        const [teacher, student] = await Promise.all([of("teacher"), of("student")]);
        found.set(quantity.name, { quantity, teacher, student });
      }
      if (generation !== this.generation) return;
      this.shown.value = found;
      this.trouble.value = "";
    } catch (error) {
      if (generation === this.generation)
        this.trouble.value = `What was measured could not be read: ${(error as Error).message}`;
    } finally {
      if (generation === this.generation) this.isLoading.value = false;
    }
  }

  /** Where the measurements of a side are; null when there are none. */
  private sourceOf(side: Side | null): { run: string; model: string; variant: string; last: number } | null {
    if (!side) return null;
    const { run, model, variant } = side.choice;
    const entries = (this.session.records.value?.measurements ?? []).filter(
      (entry) => entry.run === run && entry.model === model,
    );
    if (!entries.length) return null;
    // Another text when more was recorded, so that it is read again.
    return { run, model, variant, last: entries.reduce((sum, { steps }) => sum + steps.length, 0) };
  }
}

/** Position of the step nearest to the one asked for; the last for null. */
export function nearestIndex(steps: readonly number[], step: number | null): number {
  if (step === null) return steps.length - 1;
  let best = 0;
  for (let index = 1; index < steps.length; index++) {
    if (Math.abs(steps[index]! - step) < Math.abs(steps[best]! - step)) best = index;
  }
  return best;
}
