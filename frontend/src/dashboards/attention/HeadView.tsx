import { useMemo } from "preact/hooks";
import { SEQUENTIAL, SIGNED } from "../../heatmap/color_maps";
import type { MatrixCell, MatrixPicture } from "../../heatmap/matrix_canvas";
import { difference, extent } from "../../heatmap/overview_plane";
import type { Matrix } from "../../heatmap/rasterize";
import { SignedScale, ValueScale } from "../../heatmap/value_scale";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { HeadPicker } from "./HeadPicker";
import { positionsOf } from "./head_matrix";
import { Legend } from "./Legend";
import { MatrixView } from "./MatrixView";
import { RowProfile } from "./RowProfile";
import { queryCell, type ShownHead, useShownHeads } from "./shown_head";
import { specialPositions } from "./special_tokens";
import { ViewOptions } from "./ViewOptions";

/** One head of each model, cell by cell. */
export function HeadView({ state }: { state: AttentionState }) {
  const heads = useShownHeads(state);
  const kind = state.scale.value;
  const maximum = heads.reduce((most, head) => Math.max(most, head.maximum), 0);
  const scale = useMemo(() => new ValueScale(kind, maximum), [kind, maximum]);
  const canHide = heads.some(
    ({ overview, choice, head }) =>
      head.isFull && specialPositions(overview.keyAxis(choice.layer)).length > 0,
  );
  return (
    <section class="head-view" aria-label="One head in full">
      <div class="view-bar">
        <Legend colors={SEQUENTIAL} kind={kind} maximum={maximum} isSigned={false} label="probability" />
        <ViewOptions state={state} view="head" />
        {canHide && (
          <label>
            <input
              type="checkbox"
              checked={state.hideSpecial.value !== ""}
              onChange={(event) => {
                state.hideSpecial.value = event.currentTarget.checked ? "1" : "";
              }}
            />{" "}
            hide special tokens
          </label>
        )}
        <span class="soft">Ctrl + wheel zooms, a click chooses the query</span>
      </div>
      <div class="head-columns">
        {SIDES.map((name) =>
          state.side(name) === null ? null : (
            <HeadColumn
              key={name}
              state={state}
              name={name}
              shown={heads.find((head) => head.name === name)}
              scale={scale}
            />
          ),
        )}
        <DifferenceColumn state={state} heads={heads} />
      </div>
      {heads.length > 0 && <RowProfile state={state} heads={heads} />}
    </section>
  );
}

interface HeadColumnProps {
  state: AttentionState;
  name: SideName;
  shown: ShownHead | undefined;
  scale: ValueScale;
}

function HeadColumn({ state, name, shown, scale }: HeadColumnProps) {
  const selectedRow = shown === undefined ? -1 : queryCell(state.query.value, shown);
  const picture = useMemo<MatrixPicture | null>(
    () =>
      shown === undefined
        ? null
        : {
            matrix: shown.matrix,
            colorIndex: (value) => scale.index(value),
            colors: SEQUENTIAL,
            rowLabels: shown.queryLabels,
            columnLabels: shown.keyLabels,
            rowTitle: "queries",
            columnTitle: "keys",
            selectedRow,
          },
    [shown, scale, selectedRow],
  );
  const { status, error } = state.data[name].matrix.state.value;
  return (
    <div class="head-column">
      <HeadPicker state={state} name={name} />
      {shown === undefined || picture === null ? (
        <p class="hint">
          {status === "failed"
            ? error?.message
            : status === "ready"
              ? "This layer was not captured; Sources says why."
              : "Reading the head …"}
        </p>
      ) : (
        <>
          <MatrixView
            label={`${name}, layer ${shown.choice.layer}, head ${shown.choice.head}`}
            picture={picture}
            dark={state.session.dark.value}
            describe={(cell) => describeCell(shown, cell)}
            onSelect={({ row }) => state.setQuery(positionsOf(row, shown.matrix.rows, shown.head.queries)[0])}
          />
          <p>
            <span class={shown.head.isFull ? "soft" : "guarantee"}>{shown.head.guarantee}</span>
            {shown.hiddenMass > 0 && (
              <span class="guarantee">
                {" "}
                {(100 * shown.hiddenMass).toFixed(1)} % of the mass is on hidden special tokens
              </span>
            )}
          </p>
        </>
      )}
    </div>
  );
}

function describeCell(
  { head, matrix, queryLabels, keyLabels, name }: ShownHead,
  { row, column }: MatrixCell,
): string {
  const value = matrix.values[row * matrix.columns + column] ?? Number.NaN;
  const place = (cell: number, cells: number, length: number, labels: readonly string[]) => {
    const [first, last] = positionsOf(cell, cells, length);
    return first === last ? `${first} “${labels[cell]}”` : `${first}–${last}`;
  };
  return [
    `${name}: ${Number.isNaN(value) ? "hidden" : exact(value)}${head.isFull ? "" : " (largest of the block)"}`,
    `query ${place(row, matrix.rows, head.queries, queryLabels)}`,
    `key ${place(column, matrix.columns, head.keys, keyLabels)}`,
  ].join("\n");
}

function exact(value: number): string {
  return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(3) : value.toFixed(5);
}

function DifferenceColumn({ state, heads }: { state: AttentionState; heads: readonly ShownHead[] }) {
  const [teacher, student] = heads;
  const kind = state.scale.value;
  const change = useMemo(
    () =>
      teacher !== undefined && student !== undefined && sameShape(teacher.matrix, student.matrix)
        ? difference(student.matrix, teacher.matrix)
        : null,
    [teacher, student],
  );
  const largest = useMemo(() => (change === null ? 0 : extent(change)), [change]);
  const selectedRow = teacher === undefined ? -1 : queryCell(state.query.value, teacher);
  const picture = useMemo<MatrixPicture | null>(() => {
    if (change === null || teacher === undefined) return null;
    const scale = new SignedScale(kind, largest);
    return {
      matrix: change,
      colorIndex: (value) => scale.index(value),
      colors: SIGNED,
      rowLabels: teacher.queryLabels,
      columnLabels: teacher.keyLabels,
      rowTitle: "queries",
      columnTitle: "keys",
      selectedRow,
    };
  }, [change, largest, teacher, kind, selectedRow]);
  if (teacher === undefined || student === undefined) return null;
  if (change === null || picture === null) {
    return (
      <div class="head-column">
        <div class="head-picker">student − teacher</div>
        <p class="hint">
          The two heads have maps of different size ({teacher.matrix.rows} × {teacher.matrix.columns} and{" "}
          {student.matrix.rows} × {student.matrix.columns}); only heads over the same positions are
          subtracted.
        </p>
      </div>
    );
  }
  return (
    <div class="head-column">
      <div class="head-picker">
        <Legend colors={SIGNED} kind={kind} maximum={largest} isSigned label="student − teacher" />
      </div>
      <MatrixView
        label="student minus teacher"
        picture={picture}
        dark={state.session.dark.value}
        describe={({ row, column }) => {
          const value = change.values[row * change.columns + column] ?? Number.NaN;
          return `student − teacher: ${value > 0 ? "+" : ""}${exact(value)}\nquery “${teacher.queryLabels[row]}”\nkey “${teacher.keyLabels[column]}”`;
        }}
        onSelect={({ row }) => state.setQuery(positionsOf(row, change.rows, teacher.head.queries)[0])}
      />
    </div>
  );
}

function sameShape(a: Matrix, b: Matrix): boolean {
  return a.rows === b.rows && a.columns === b.columns;
}
