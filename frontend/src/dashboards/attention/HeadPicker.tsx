import type { AttentionState, SideName } from "./attention_state";
import { STATISTICS, statisticText } from "./statistics";

/** Chooses layer and head of one model. */
export function HeadPicker({ state, name }: { state: AttentionState; name: SideName }) {
  const overview = state.overview(name);
  const choice = state.chosen[name].value;
  if (overview === undefined || choice === null) return null;
  const record = overview.layers[choice.layer];
  const statistics = STATISTICS.filter(({ id }) => id !== "entropy" && id !== "maximum");
  return (
    <div class="head-picker">
      <span class="letter" aria-hidden="true">
        {name === "teacher" ? "T" : "S"}
      </span>
      <select
        aria-label={`Layer of the ${name}`}
        value={String(choice.layer)}
        onChange={(event) => state.choose(name, { layer: Number(event.currentTarget.value), head: 0 }, true)}
      >
        {overview.layers.map((layer, index) => (
          <option key={index} value={String(index)} disabled={layer.notCaptured !== ""}>
            layer {index} · {layer.modulePath || "(model)"}
          </option>
        ))}
      </select>
      <select
        aria-label={`Head of the ${name}`}
        value={String(choice.head)}
        onChange={(event) => state.choose(name, { ...choice, head: Number(event.currentTarget.value) }, true)}
      >
        {Array.from({ length: record?.heads ?? 0 }, (_, head) => (
          <option key={head} value={String(head)}>
            head {head}
          </option>
        ))}
      </select>
      <p class="head-statistics">
        {statistics.map(({ id, label, meaning }) => (
          <span key={id} data-tip={meaning}>
            {label} <b>{statisticText(overview.statistic(id, choice.layer, choice.head))}</b>
          </span>
        ))}
      </p>
    </div>
  );
}
