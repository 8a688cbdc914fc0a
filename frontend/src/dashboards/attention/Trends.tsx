import { useEffect } from "preact/hooks";
import { Show } from "../../ui/States";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { type History, layerDistances, meanOf } from "./history";
import { type ChartSeries, LineChart } from "./LineChart";
import { STATISTICS } from "./statistics";

/** How the statistics of both models change while the student learns. */
export function Trends({ state }: { state: AttentionState }) {
  useEffect(() => state.loadHistory());
  if (state.steps.value.length < 2) {
    return (
      <p class="hint">One shared step is recorded; trends need two. Record attention every few steps.</p>
    );
  }
  return (
    <Show resource={state.history} onRetry={() => state.loadHistory(true)}>
      {(history) => <Charts state={state} history={history} />}
    </Show>
  );
}

function Charts({ state, history }: { state: AttentionState; history: History }) {
  const current = state.side("teacher")?.address.step ?? Number.NaN;
  const pair = state.pair.value;
  const layerOf = (name: SideName) =>
    pair?.[name === "teacher" ? 0 : 1] ?? state.chosen[name].value?.layer ?? 0;
  const statistic = (id: string): ChartSeries[] =>
    SIDES.filter((name) => history[name].length > 0).flatMap((name) => {
      const points = (layer: number | null) =>
        history[name].map((table, index) => ({ x: history.steps[index]!, y: meanOf(table, id, layer) }));
      const letter = name === "teacher" ? "T" : "S";
      return [
        { name: `${letter} all heads`, style: name, points: points(null) },
        { name: `${letter} layer ${layerOf(name)}`, style: `${name} faint`, points: points(layerOf(name)) },
      ];
    });
  const distances = (state.comparison.value?.layer_pairs ?? []).map(([t, s]): ChartSeries => {
    const isChosen = pair !== null && t === pair[0] && s === pair[1];
    return {
      name: `T${t} · S${s}`,
      style: isChosen ? "pair" : "pair faint",
      points: layerDistances(history, t, s),
    };
  });
  const common = { current, steps: history.steps, onStep: (step: number) => state.showStep(step) };
  return (
    <section class="trends" aria-label="Statistics over steps">
      <p class="soft">
        Solid: teacher. Dashed: student. Strong: mean over all heads. Faint: the layers of the pair shown
        {pair === null ? "" : ` (T${pair[0]} · S${pair[1]})`}. Click a chart to go to a step.
      </p>
      <div class="charts">
        {distances.length > 0 && (
          <LineChart
            title="distance of paired layers"
            meaning={`${state.comparison.value?.measure ?? ""} distance, mean over matched heads; 0 is the same`}
            series={distances}
            {...common}
          />
        )}
        {STATISTICS.filter(({ id }) => id !== "entropy").map(({ id, label, meaning }) => (
          <LineChart key={id} title={label} meaning={meaning} series={statistic(id)} {...common} />
        ))}
      </div>
    </section>
  );
}
