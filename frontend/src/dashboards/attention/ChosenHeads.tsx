import { useMemo } from "preact/hooks";
import { SEQUENTIAL } from "../../heatmap/color_maps";
import { extent } from "../../heatmap/overview_plane";
import type { Matrix } from "../../heatmap/rasterize";
import { ValueScale } from "../../heatmap/value_scale";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { MatrixThumb } from "./MatrixThumb";
import { STATISTICS, statisticText } from "./statistics";

/**
 * The chosen head of each model, large enough to read, with its statistics. `scaleMaximum` is the top of the colour
 * scale of the maps beside it; null when those show something else.
 */
export function ChosenHeads({ state, scaleMaximum }: { state: AttentionState; scaleMaximum: number | null }) {
  const [teacher, student] = SIDES.map((name) => state.data[name].matrix.value?.matrix);
  const own = useMemo(() => Math.max(largestOf(teacher), largestOf(student)), [teacher, student]);
  const maximum = scaleMaximum ?? own;
  const kind = state.scale.value;
  const color = useMemo(() => {
    const scale = new ValueScale(kind, maximum);
    return (value: number) => scale.index(value);
  }, [kind, maximum]);
  const sides = SIDES.filter((name) => state.chosen[name].value !== null);
  if (sides.length === 0) return null;
  return (
    <section class="chosen-heads" aria-label="Chosen heads">
      <h2>
        Chosen{" "}
        <button
          type="button"
          class="link"
          onClick={() => {
            state.view.value = "head";
          }}
        >
          open
        </button>
      </h2>
      <div class="chosen-maps">
        {sides.map((name) => (
          <ChosenMap key={name} state={state} name={name} color={color} />
        ))}
      </div>
      <table class="facts ruled">
        <thead>
          <tr>
            <td />
            {sides.map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {STATISTICS.map(({ id, label, meaning }) => (
            <tr key={id}>
              <th scope="row" data-tip={meaning}>
                {label}
              </th>
              {sides.map((name) => {
                const choice = state.chosen[name].value;
                const value =
                  choice === null
                    ? Number.NaN
                    : state.overview(name)?.statistic(id, choice.layer, choice.head);
                return (
                  <td key={name} class="number">
                    {statisticText(value ?? Number.NaN)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function largestOf(matrix: Matrix | undefined): number {
  return matrix === undefined ? 0 : extent(matrix);
}

function ChosenMap({
  state,
  name,
  color,
}: {
  state: AttentionState;
  name: SideName;
  color: (value: number) => number;
}) {
  const choice = state.chosen[name].value;
  const matrix = state.data[name].matrix.value?.matrix;
  if (choice === null) return null;
  const label = `${name === "teacher" ? "T" : "S"} layer ${choice.layer} head ${choice.head}`;
  return (
    <figure>
      {matrix === undefined ? (
        <div class="matrix-thumb pending" />
      ) : (
        <MatrixThumb matrix={matrix} colorIndex={color} colors={SEQUENTIAL} size={150} label={label} />
      )}
      <figcaption>{label}</figcaption>
    </figure>
  );
}
