import { useEffect } from "preact/hooks";
import { Button } from "./Button";
import { exactNumber } from "./format";
import css from "./measured_bar.css?inline";
import { type MeasuredState, nearestIndex, type ShownQuantity } from "./measured_state";
import { StepSlider } from "./StepSlider";
import { adoptStyles } from "./styles";

/** Below the tools: which step the colours are of, and what they mean. */
export function MeasuredBar(props: { state: MeasuredState; name: string; note?: string }) {
  const { state, name, note } = props;
  useEffect(() => void adoptStyles(css), []);
  const steps = state.stepsOf(name);
  const shown = state.shown.value.get(name);
  const quantity = shown?.quantity ?? state.quantities.value.find((one) => one.name === name);
  if (!quantity) {
    return (
      <p class="measured-bar soft" role="status">
        {state.trouble.value || `"${name}" was not measured of these models.`}
      </p>
    );
  }
  const index = nearestIndex(steps, state.step.value);
  const current = steps[index] ?? 0;
  return (
    <section class="measured-bar" aria-label={`${quantity.label} at a step`}>
      <b data-tip={quantity.meaning || undefined}>{quantity.label}</b>
      {steps.length > 1 && (
        <span class="measured-steps">
          <Button label="The step before" disabled={index <= 0} onClick={() => state.moveStep(name, -1)}>
            ‹
          </Button>
          <StepSlider
            steps={steps}
            index={index}
            label={`Step of ${quantity.label}`}
            onStep={(step) => {
              state.stepText.value = step === steps.at(-1) ? "" : String(step);
            }}
          />
          <Button
            label="The step after"
            disabled={index >= steps.length - 1}
            onClick={() => state.moveStep(name, 1)}
          >
            ›
          </Button>
        </span>
      )}
      <output aria-live="polite">{shown ? stepText(shown, state.step.value ?? current) : "reading …"}</output>
      {note && <span class="soft">{note}</span>}
      {shown && <Legend state={state} shown={shown} />}
      {state.trouble.value && <span role="alert">{state.trouble.value}</span>}
    </section>
  );
}

/** The step that is shown; where a side has none there, the nearest one it has. */
function stepText({ teacher, student }: ShownQuantity, asked: number): string {
  const name = (step: number) => exactNumber(step);
  const sides = [teacher, student].filter((side) => side !== null);
  if (sides.every(({ step }) => step === asked)) return `step ${name(asked)}`;
  if (sides.length === 1 || teacher?.step === student?.step)
    return `step ${name(sides[0]?.step ?? 0)}, the nearest to ${name(asked)} that was recorded`;
  return `T step ${name(teacher?.step ?? 0)}, S step ${name(student?.step ?? 0)}: the nearest to ${name(asked)} that were recorded`;
}

function Legend({
  state,
  shown: { quantity, teacher, student },
}: {
  state: MeasuredState;
  shown: ShownQuantity;
}) {
  const scale = state.scaleOf(quantity);
  const values = [...(teacher?.values.values() ?? []), ...(student?.values.values() ?? [])];
  const ends = scale.ends();
  const swatch = (value: number, label: string) => (
    <li key={label}>
      <i style={{ background: scale.colour(value) ?? undefined }} />
      {label}
    </li>
  );
  const seen = (test: (value: number) => boolean) => values.some(test);
  return (
    <ul class="measured-legend" aria-label={`Legend: ${quantity.label}`}>
      {ends ? (
        <li class="measured-ramp">
          {ends[0]}
          <i style={{ background: scale.gradient() }} />
          {ends[1]}
          <span class="soft">{SCALE_TEXT[quantity.scale]}</span>
        </li>
      ) : (
        quantity.categories.map((label, value) =>
          seen((one) => one === value) ? swatch(value, label) : null,
        )
      )}
      {quantity.scale === "log" && seen((value) => value === 0) && swatch(0, "0 exactly 0")}
      {seen((value) => Math.abs(value) === Number.POSITIVE_INFINITY) &&
        swatch(Number.POSITIVE_INFINITY, "∞ not finite")}
      <li>
        <i class="measured-none" />
        not measured
      </li>
    </ul>
  );
}

const SCALE_TEXT = {
  linear: "linear",
  log: "logarithmic",
  signed: "about 0",
  category: "",
} as const;
