import { type Choice, contentOf, type Side } from "./choice";
import { exactNumber } from "./format";
import { isolated } from "./isolated";
import type { Session } from "./session";

const NAMES = { teacher: "Teacher", student: "Student" } as const;

/** Picks run, model, variant and step of one side. */
export function SidePicker({ session, which }: { session: Session; which: "teacher" | "student" }) {
  const side = session[which].value;
  const choices = session.choices.value;
  const value = side ? choices.indexOf(side.choice) : -1;
  const pick = (index: number) => session.pick(which, choices[index] ?? null);
  const runs = runsOf(choices);
  return (
    <div class={`side ${which}`}>
      <span class="letter" aria-hidden="true">
        {NAMES[which][0]}
      </span>
      {side && runs.length > 1 && (
        <span class="run" data-tip={`run ${side.choice.run}`}>
          <bdi>{runName(side.choice.run)}</bdi>
        </span>
      )}
      <select
        aria-label={NAMES[which]}
        value={value}
        title={side ? `${side.choice.run} / ${side.choice.model}` : undefined}
        onChange={(event) => pick(Number(event.currentTarget.value))}
      >
        {(which === "student" || !side) && <option value={-1}>— none —</option>}
        {runs.map(([run, ofRun]) => (
          <optgroup key={run} label={runName(run)}>
            {ofRun.map(({ choice, index }) => (
              <option key={choice.tag} value={index}>
                {isolated(choice.model)}
                {choice.variant && ` / ${isolated(choice.variant)}`} · {choice.detail}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
      {side && <StepSlider session={session} which={which} side={side} />}
    </div>
  );
}

function StepSlider({
  session,
  which,
  side,
}: {
  session: Session;
  which: "teacher" | "student";
  side: Side;
}) {
  const { steps } = side.choice;
  const last = steps.length - 1;
  if (last < 1) return <span class="step">step {exactNumber(side.address.step)}</span>;
  const select = (index: number) =>
    session.pick(which, side.choice, index >= last ? null : (steps[index]?.step ?? null));
  // Steps at which the record differs from the one before.
  const changes = steps.map((step, index) => index > 0 && contentOf(step) !== contentOf(steps[index - 1]!));
  const changed = changes[side.index] ? ", changed here" : "";
  const list = steps.filter((_, index) => changes[index]).map(({ step }) => exactNumber(step));
  return (
    <span class="step">
      <span class="track">
        <input
          type="range"
          min={0}
          max={last}
          value={side.index}
          aria-label={`${NAMES[which]} step`}
          aria-valuetext={`step ${side.address.step}${side.latest ? ", latest" : ""}${changed}`}
          data-tip={list.length ? `changed at step ${list.join(", ")}` : "the same at every step"}
          onInput={(event) => select(Number(event.currentTarget.value))}
        />
        <span class="ticks" aria-hidden="true">
          {changes.map((changed, index) =>
            changed ? <i key={steps[index]!.step} style={{ left: `${(100 * index) / last}%` }} /> : null,
          )}
        </span>
      </span>
      <output>
        step {exactNumber(side.address.step)}
        {side.latest && <span class="soft"> latest</span>}
      </output>
    </span>
  );
}

function runName(run: string): string {
  return run === "." ? "(log directory)" : run;
}

function runsOf(choices: readonly Choice[]): [string, { choice: Choice; index: number }[]][] {
  const runs = new Map<string, { choice: Choice; index: number }[]>();
  choices.forEach((choice, index) => {
    const list = runs.get(choice.run) ?? [];
    list.push({ choice, index });
    runs.set(choice.run, list);
  });
  return [...runs];
}
