import { SCALE_KINDS, type ScaleKind } from "../../heatmap/value_scale";
import type { AttentionState, View } from "./attention_state";
import { STATISTICS } from "./statistics";

/** How maps are drawn, for the views that draw maps. */
export function ViewOptions({ state, view }: { state: AttentionState; view: View }) {
  const hasMaps = view === "overview" || view === "pair" || view === "head" || view === "image";
  if (!hasMaps) return null;
  const isOverview = view === "overview";
  return (
    <span class="view-options">
      {view === "head" && (
        <label data-tip="One head, or what reaches the chosen layer from the input through all layers before it, heads averaged">
          map{" "}
          <select
            value={state.shows.value}
            onChange={(event) => {
              state.shows.value = event.currentTarget.value;
            }}
          >
            <option value="">head</option>
            <option value="rollout">rollout</option>
          </select>
        </label>
      )}
      {isOverview && (
        <label data-tip="What the colour of a head shows">
          colour{" "}
          <select
            value={state.statistic.value}
            onChange={(event) => {
              state.statistic.value = event.currentTarget.value;
            }}
          >
            <option value="">the map</option>
            {STATISTICS.map(({ id, label }) => (
              <option key={id} value={id}>
                {label}
              </option>
            ))}
          </select>
        </label>
      )}
      {(view === "pair" || (isOverview && state.statistic.value === "")) && (
        <label data-tip="A cell of an overview covers several queries and keys: their largest probability, or the probability that falls into the cell">
          cells{" "}
          <select
            value={state.plane.value}
            onChange={(event) => state.setPlane(event.currentTarget.value === "mass" ? "mass" : "maximum")}
          >
            <option value="maximum">largest</option>
            <option value="mass">mass</option>
          </select>
        </label>
      )}
      <label data-tip="How values become colours">
        scale{" "}
        <select
          value={state.scale.value}
          onChange={(event) => state.setScale(event.currentTarget.value as ScaleKind)}
        >
          {SCALE_KINDS.map((kind) => (
            <option key={kind}>{kind}</option>
          ))}
        </select>
      </label>
    </span>
  );
}
