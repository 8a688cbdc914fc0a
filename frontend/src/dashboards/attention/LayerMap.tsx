import { channels, cssColor, SEQUENTIAL } from "../../heatmap/color_maps";
import { ValueScale } from "../../heatmap/value_scale";
import { Show } from "../../ui/States";
import type { AttentionComparison } from "../../wire/attention";
import type { AttentionState } from "./attention_state";
import { Legend } from "./Legend";

/** How far every teacher layer is from every student layer; pairs in use are outlined. */
export function LayerMap({ state }: { state: AttentionState }) {
  if (state.side("student") === null) return <p class="hint">Pick a student to compare layers.</p>;
  return (
    <Show resource={state.comparison} onRetry={() => state.retry()}>
      {(comparison) => <Distances state={state} comparison={comparison} />}
    </Show>
  );
}

function Distances({ state, comparison }: { state: AttentionState; comparison: AttentionComparison }) {
  const { layer_distances: distances, layer_pairs: pairs } = comparison;
  const columns = distances[0]?.length ?? 0;
  const known = distances.flat().filter((distance): distance is number => distance !== null);
  const maximum = known.reduce((most, distance) => Math.max(most, distance), 0);
  const scale = new ValueScale("linear", maximum);
  const chosen = state.pair.value;
  const isPair = (teacher: number, student: number) => pairs.some(([t, s]) => t === teacher && s === student);
  const open = (teacher: number, student: number) => {
    state.setPair(teacher, student);
    state.view.value = "pair";
  };
  if (known.length === 0) {
    return (
      <p class="hint">
        No layer of the student can be compared with a layer of the teacher. {comparison.notes.join(" ")}
      </p>
    );
  }
  return (
    <section class="layer-map" aria-label="Distance between layers">
      <div class="view-bar">
        <Legend
          colors={SEQUENTIAL}
          kind="linear"
          maximum={maximum}
          isSigned={false}
          label={`${comparison.measure} distance`}
        />
        <span class="soft">
          mean over matched heads, 0 is the same · resolution: {comparison.resolution} · outlined:{" "}
          {comparison.pairing === "alignment"
            ? `paired by the alignment of the models, policy ${state.session.policy.value}`
            : "paired by least distance"}
        </span>
      </div>
      <div class="table-scroll">
        <table class={columns <= 12 ? "distances roomy" : "distances"} onKeyDown={moveFocus}>
          <caption class="visually-hidden">Rows: teacher layers. Columns: student layers.</caption>
          <thead>
            <tr>
              <th scope="col" class="corner">
                T ↓ S →
              </th>
              {Array.from({ length: columns }, (_, student) => (
                <th
                  key={student}
                  scope="col"
                  data-tip={state.overview("student")?.layers[student]?.modulePath}
                >
                  {student}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {distances.map((row, teacher) => (
              <tr key={teacher}>
                <th scope="row" data-tip={state.overview("teacher")?.layers[teacher]?.modulePath}>
                  {teacher}
                </th>
                {row.map((distance, student) => (
                  <td key={student}>
                    <button
                      type="button"
                      class={`distance${isPair(teacher, student) ? " paired" : ""}${
                        chosen?.[0] === teacher && chosen[1] === student ? " chosen" : ""
                      }`}
                      disabled={distance === null}
                      style={distance === null ? {} : cellColors(scale.index(distance))}
                      data-tip={`teacher layer ${teacher}, student layer ${student}: ${
                        distance === null ? "not comparable" : distance.toFixed(4)
                      }${isPair(teacher, student) ? "\npair in use" : ""}`}
                      onClick={() => open(teacher, student)}
                    >
                      {distance === null ? "–" : distance.toFixed(2)}
                    </button>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Notes notes={comparison.notes} />
    </section>
  );
}

export function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return (
    <ul class="notes">
      {notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
}

/** The colour of a cell and the text colour with more contrast on it (relative luminance of WCAG 2). */
function cellColors(index: number): { background: string; color: string } {
  const [red, green, blue] = channels(SEQUENTIAL, index).map((byte) => (byte / 255) ** 2.2) as [
    number,
    number,
    number,
  ];
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return { background: cssColor(SEQUENTIAL, index), color: luminance > 0.18 ? "#000" : "#fff" };
}

/** Arrow keys move between the cells. */
function moveFocus(event: KeyboardEvent): void {
  const moves: Record<string, [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  };
  const move = moves[event.key];
  const cell = (event.target as HTMLElement).closest("td");
  const row = cell?.closest("tr");
  if (move === undefined || !cell || !row) return;
  const nextRow = move[0] === 0 ? row : move[0] < 0 ? row.previousElementSibling : row.nextElementSibling;
  const next = nextRow?.children[cell.cellIndex + move[1]]?.querySelector("button");
  if (next instanceof HTMLElement) {
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}
