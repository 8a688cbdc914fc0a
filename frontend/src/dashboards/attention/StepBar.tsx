import { useEffect } from "preact/hooks";
import { Button } from "../../ui/Button";
import { exactNumber } from "../../ui/format";
import { StepSlider } from "../../ui/StepSlider";
import type { AttentionState } from "./attention_state";

/** Milliseconds a step stays while playing. */
const PLAY_INTERVAL = 700;

/** Moves both models through the steps they share; plays them; subtracts one of them. */
export function StepBar({ state }: { state: AttentionState }) {
  const steps = state.steps.value;
  const current = state.side("teacher")?.address.step ?? 0;
  const index = Math.max(0, steps.indexOf(current));
  const playing = state.playing.value;
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => {
      // Waits for the step shown to arrive, so that a slow server is not flooded.
      const isWaiting = state.data.teacher.overview.state.peek().status === "loading";
      if (!isWaiting && state.session.host.visible.peek() && !state.moveStep(1)) state.playing.value = false;
    }, PLAY_INTERVAL);
    return () => clearInterval(timer);
  }, [playing, state]);
  if (steps.length < 2) return null;
  return (
    <div class="step-bar">
      <Button
        label={playing ? "Stop (Space)" : "Play through the steps (Space)"}
        onClick={() => togglePlay(state)}
      >
        {playing ? "❚❚" : "▶"}
      </Button>
      <StepSlider
        steps={steps}
        index={index}
        label="Step of both models"
        onStep={(step) => state.showStep(step)}
      />
      <output>step {exactNumber(current)}</output>
      <label data-tip="Show what changed since another step">
        minus{" "}
        <select
          value={state.baseStep.value === null ? "" : String(state.baseStep.value)}
          onChange={(event) => {
            const { value } = event.currentTarget;
            state.setBase(value === "" ? null : Number(value));
          }}
        >
          <option value="">nothing</option>
          {steps.map((step) => (
            <option key={step} value={String(step)}>
              step {exactNumber(step)}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** Starts at the beginning when the last step is shown. */
export function togglePlay(state: AttentionState): void {
  const steps = state.steps.peek();
  const first = steps[0];
  if (!state.playing.peek() && first !== undefined && state.side("teacher")?.address.step === steps.at(-1)) {
    state.showStep(first);
  }
  state.playing.value = !state.playing.peek() && steps.length > 1;
}
