interface StepSliderProps {
  steps: readonly number[];
  /** Position of the step shown. */
  index: number;
  label: string;
  onStep: (step: number) => void;
}

/** A slider over recorded steps, one stop each, however far apart they are. */
export function StepSlider({ steps, index, label, onStep }: StepSliderProps) {
  return (
    <input
      type="range"
      min={0}
      max={steps.length - 1}
      value={index}
      aria-label={label}
      aria-valuetext={`step ${steps[index] ?? 0}`}
      onInput={(event) => {
        const step = steps[Number(event.currentTarget.value)];
        if (step !== undefined) onStep(step);
      }}
    />
  );
}
