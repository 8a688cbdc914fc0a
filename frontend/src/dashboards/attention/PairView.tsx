import { useMemo } from "preact/hooks";
import { SEQUENTIAL, SIGNED } from "../../heatmap/color_maps";
import { decodePlane, difference, extent } from "../../heatmap/overview_plane";
import type { Matrix } from "../../heatmap/rasterize";
import { SignedScale, ValueScale } from "../../heatmap/value_scale";
import type { AttentionOverview, HeadDivergence, LayerPair, PlaneKind } from "../../wire/attention";
import type { AttentionState, SideName } from "./attention_state";
import { useDivergences } from "./divergences";
import { Notes } from "./LayerMap";
import { Legend } from "./Legend";
import { MatrixThumb } from "./MatrixThumb";
import { RowMarks } from "./RowMarks";
import { Sparkline } from "./Sparkline";
import { ViewOptions } from "./ViewOptions";

const SIZE = 140;

/** The matched heads of two layers, side by side. */
export function PairView({ state }: { state: AttentionState }) {
  const teacher = state.overview("teacher");
  const student = state.overview("student");
  const pair = state.pair.value;
  if (state.side("student") === null) return <p class="hint">Pick a student to compare heads.</p>;
  if (teacher === undefined || student === undefined || pair === null) {
    const { error, value } = state.comparison.state.value;
    const nothing = value && [
      "No layer of the student can be compared with one of the teacher",
      ...value.notes,
    ];
    return <p class="hint">{error?.message ?? nothing?.join(": ") ?? "Comparing heads …"}</p>;
  }
  return (
    <section class="pair-view" aria-label="Matched heads of two layers">
      <PairPicker state={state} teacher={teacher} student={student} pair={pair} />
      <Matched state={state} teacher={teacher} student={student} layers={pair} />
      <Notes notes={state.comparison.value?.notes ?? []} />
    </section>
  );
}

function PairPicker(props: {
  state: AttentionState;
  teacher: AttentionOverview;
  student: AttentionOverview;
  pair: [number, number];
}) {
  const { state, pair } = props;
  const inUse = state.comparison.value?.layer_pairs ?? [];
  const picker = (name: SideName, overview: AttentionOverview, index: 0 | 1) => (
    <label>
      <span class="letter" aria-hidden="true">
        {name === "teacher" ? "T" : "S"}
      </span>
      <select
        aria-label={`Layer of the ${name}`}
        value={String(pair[index])}
        onChange={(event) => {
          const layer = Number(event.currentTarget.value);
          state.setPair(index === 0 ? layer : pair[0], index === 1 ? layer : pair[1]);
        }}
      >
        {overview.layers.map((record, layer) => (
          <option key={layer} value={String(layer)}>
            {layer} · {record.modulePath || "(model)"}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <div class="view-bar">
      {picker("teacher", props.teacher, 0)}
      {picker("student", props.student, 1)}
      {inUse.length > 0 && (
        <span class="pair-chips" role="group" aria-label="Pairs in use">
          {inUse.map(([t, s]) => (
            <button
              key={`${t} ${s}`}
              type="button"
              class="chip tone-grey"
              aria-pressed={t === pair[0] && s === pair[1]}
              onClick={() => state.setPair(t, s)}
            >
              T{t} · S{s}
            </button>
          ))}
        </span>
      )}
    </div>
  );
}

interface MatchedProps {
  state: AttentionState;
  teacher: AttentionOverview;
  student: AttentionOverview;
  layers: [number, number];
}

function Matched({ state, teacher, student, layers }: MatchedProps) {
  const [teacherLayer, studentLayer] = layers;
  const compared = state.compared(teacherLayer, studentLayer);
  const step = teacher.address.step;
  const plane = state.plane.value;
  const kind = state.scale.value;
  const maps = useMemo(
    () => matchedMaps(teacher, student, teacherLayer, studentLayer, compared, plane),
    [teacher, student, teacherLayer, studentLayer, compared, plane],
  );
  const heads = useMemo(
    () => maps.rows.map(({ teacherHead, studentHead }) => [teacherHead, studentHead] as const),
    [maps],
  );
  const divergences = useDivergences(state, layers, heads);
  const scale = useMemo(() => new ValueScale(kind, maps.maximum), [kind, maps]);
  const signed = useMemo(() => new SignedScale(kind, maps.largestDifference), [kind, maps]);
  const color = useMemo(() => (value: number) => scale.index(value), [scale]);
  const signedColor = useMemo(() => (value: number) => signed.index(value), [signed]);
  const hasHistory = state.steps.value.length > 1;
  if (maps.rows.length === 0) {
    return <p class="hint">These two layers cannot be compared head by head.</p>;
  }
  const open = (t: number, s: number) => {
    state.choose("teacher", { layer: teacherLayer, head: t }, true);
    state.choose("student", { layer: studentLayer, head: s }, true);
    state.view.value = "head";
  };
  return (
    <>
      <div class="view-bar">
        <Legend colors={SEQUENTIAL} kind={kind} maximum={maps.maximum} isSigned={false} label="probability" />
        <Legend
          colors={SIGNED}
          kind={kind}
          maximum={maps.largestDifference}
          isSigned
          label="student − teacher"
        />
        <RowMarks matrices={maps.rows.flatMap(({ teacher, student }) => [teacher, student])} />
        <ViewOptions state={state} view="pair" />
      </div>
      <div class="table-scroll">
        <table class="pairs">
          <thead>
            <tr>
              <th scope="col">teacher head</th>
              <th scope="col">student head</th>
              <th scope="col">student − teacher</th>
              <th scope="col">distance</th>
              {hasHistory && (
                <th
                  scope="col"
                  data-tip="Jensen–Shannon divergence of these two heads at every recorded step"
                >
                  divergence over steps
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {maps.rows.map((row) => (
              <tr key={`${row.teacherHead} ${row.studentHead}`}>
                <td>
                  <MatrixThumb
                    matrix={row.teacher}
                    colorIndex={color}
                    colors={SEQUENTIAL}
                    size={SIZE}
                    label={`teacher head ${row.teacherHead}`}
                  />
                  <span class="under">head {row.teacherHead}</span>
                </td>
                <td>
                  <MatrixThumb
                    matrix={row.student}
                    colorIndex={color}
                    colors={SEQUENTIAL}
                    size={SIZE}
                    label={`student head ${row.studentHead}`}
                  />
                  <span class="under">head {row.studentHead}</span>
                </td>
                <td>
                  <MatrixThumb
                    matrix={row.difference}
                    colorIndex={signedColor}
                    colors={SIGNED}
                    size={SIZE}
                    label="difference"
                  />
                  <span class="under soft">largest {extent(row.difference).toFixed(2)}</span>
                </td>
                <td class="distance-cell">
                  <span
                    data-tip={`${state.comparison.value?.measure ?? ""} distance, by which heads are matched`}
                  >
                    {state.comparison.value?.measure ?? ""} <b>{row.distance.toFixed(3)}</b>
                  </span>
                  <span class="distance-bar" aria-hidden="true">
                    <i style={{ width: `${100 * Math.min(1, row.distance)}%` }} />
                  </span>
                  <Divergence found={divergences.at(step, row.teacherHead, row.studentHead)} />
                  <button type="button" class="link" onClick={() => open(row.teacherHead, row.studentHead)}>
                    open both heads
                  </button>
                </td>
                {hasHistory && (
                  <td>
                    <Sparkline
                      steps={state.steps.value.length}
                      points={divergences.course(row.teacherHead, row.studentHead)}
                      current={step}
                      label={`divergence of teacher head ${row.teacherHead} and student head ${row.studentHead}`}
                    />
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Unmatched
        state={state}
        name="teacher"
        layer={teacherLayer}
        heads={compared?.unmatched_teacher ?? []}
        color={color}
      />
      <Unmatched
        state={state}
        name="student"
        layer={studentLayer}
        heads={compared?.unmatched_student ?? []}
        color={color}
      />
    </>
  );
}

/** The exact divergence of two heads, and what it was computed from. */
function Divergence({ found }: { found: HeadDivergence | undefined }) {
  if (found === undefined) return <span class="under soft">divergence …</span>;
  const [, , bits, source] = found;
  return (
    <span class="under" data-tip={`Jensen–Shannon divergence, 0 is the same, 1 disjoint; from ${source}`}>
      JS <b>{bits === null ? "–" : bits.toFixed(4)}</b> bits <span class="soft">{source}</span>
    </span>
  );
}

function Unmatched(props: {
  state: AttentionState;
  name: SideName;
  layer: number;
  heads: readonly number[];
  color: (value: number) => number;
}) {
  const { state, name, layer, heads } = props;
  const overview = state.overview(name);
  if (heads.length === 0 || overview === undefined) return null;
  return (
    <section>
      <h2>
        Heads of the {name} without a match <span class="soft">{heads.length}</span>
      </h2>
      <div class="unmatched">
        {heads.map((head) => {
          const plane = overview.plane(layer, head, state.plane.value);
          return (
            <button
              key={head}
              type="button"
              class="thumb-button"
              aria-label={`Open head ${head} of the ${name}`}
              onClick={() => {
                state.choose(name, { layer, head }, true);
                state.view.value = "head";
              }}
            >
              {plane !== null && (
                <MatrixThumb
                  matrix={decodePlane(plane)}
                  colorIndex={props.color}
                  colors={SEQUENTIAL}
                  size={72}
                  label={`head ${head}`}
                />
              )}
              <span class="under">head {head}</span>
            </button>
          );
        })}
      </div>
    </section>
  );
}

interface MatchedRow {
  teacherHead: number;
  studentHead: number;
  distance: number;
  teacher: Matrix;
  student: Matrix;
  difference: Matrix;
}

function matchedMaps(
  teacher: AttentionOverview,
  student: AttentionOverview,
  teacherLayer: number,
  studentLayer: number,
  compared: LayerPair | undefined,
  kind: PlaneKind,
): { rows: MatchedRow[]; maximum: number; largestDifference: number } {
  const rows: MatchedRow[] = [];
  let maximum = 0;
  let largestDifference = 0;
  // The best match first: what was learned, then what was not.
  for (const [t, s, distance] of [...(compared?.heads ?? [])].sort((a, b) => a[2] - b[2])) {
    const ofTeacher = teacher.plane(teacherLayer, t, kind);
    const ofStudent = student.plane(studentLayer, s, kind);
    if (ofTeacher === null || ofStudent === null) continue;
    const [a, b] = [decodePlane(ofTeacher), decodePlane(ofStudent)];
    const change = difference(b, a);
    rows.push({ teacherHead: t, studentHead: s, distance, teacher: a, student: b, difference: change });
    maximum = Math.max(maximum, ofTeacher.scale, ofStudent.scale);
    largestDifference = Math.max(largestDifference, extent(change));
  }
  return { rows, maximum, largestDifference };
}
