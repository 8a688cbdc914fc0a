import { useMemo } from "preact/hooks";
import { SEQUENTIAL, SIGNED } from "../../heatmap/color_maps";
import type { MatrixCell, MatrixPatch, MatrixPicture } from "../../heatmap/matrix_canvas";
import { overlap } from "../../heatmap/matrix_window";
import { difference, extent } from "../../heatmap/overview_plane";
import type { Box, Matrix } from "../../heatmap/rasterize";
import { SignedScale, ValueScale } from "../../heatmap/value_scale";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { HeadPicker } from "./HeadPicker";
import { rowStateWords, valueAt } from "./head_matrix";
import { useHiddenMass, usePatch } from "./head_parts";
import { Legend } from "./Legend";
import { leftOutText } from "./left_out";
import { MatrixView } from "./MatrixView";
import { RowMarks } from "./RowMarks";
import { RowProfile } from "./RowProfile";
import { canFilter, NOTHING, type ShownHead, useShownHeads } from "./shown_head";
import { shortened, specialPositions } from "./special_tokens";
import { ViewOptions } from "./ViewOptions";
import { wordsOf } from "./words";

/** Shares of each row's mass that can be asked for, in per cent. */
const MASSES = [100, 99, 95, 90, 75, 50];

/** Characters of a token in a tooltip. */
const MOST_READ = 400;

/** One head of each model, cell by cell. */
export function HeadView({ state }: { state: AttentionState }) {
  const heads = useShownHeads(state);
  const kind = state.scale.value;
  const maximum = heads.reduce((most, head) => Math.max(most, head.maximum), 0);
  const scale = useMemo(() => new ValueScale(kind, maximum), [kind, maximum]);
  const hasSpecial = heads.some(
    ({ overview, choice, head }) =>
      canFilter(head) && specialPositions(overview.keyAxis(choice.layer)).length > 0,
  );
  const hasPieces = heads.some(
    ({ overview, choice, head }) =>
      head.isFull && wordsOf(overview.keyAxis(choice.layer)?.tokens ?? []) !== null,
  );
  const [teacher, student] = SIDES.map((name) => heads.find((head) => head.name === name));
  const patches = {
    teacher: usePatch(teacher?.head, state.zoom.value, teacher?.filter ?? NOTHING),
    student: usePatch(student?.head, state.zoom.value, student?.filter ?? NOTHING),
  };
  return (
    <section class="head-view" aria-label="One head in full">
      <div class="view-bar">
        <Legend colors={SEQUENTIAL} kind={kind} maximum={maximum} isSigned={false} label="probability" />
        <RowMarks matrices={heads.map(({ matrix }) => matrix)} />
        <ViewOptions state={state} view="head" />
        {hasSpecial && (
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
        {hasPieces && (
          <label data-tip="Join the pieces of words: the mean over a word's queries, the sum over its keys">
            <input
              type="checkbox"
              checked={state.wholeWords.value !== ""}
              onChange={(event) => {
                state.wholeWords.value = event.currentTarget.checked ? "1" : "";
              }}
            />{" "}
            whole words
          </label>
        )}
        <label data-tip="Draw only the largest probabilities of each query, until they hold this share of it">
          show{" "}
          <select
            value={state.topMassText.value}
            disabled={!heads.some(({ head }) => canFilter(head))}
            onChange={(event) => {
              state.topMassText.value = event.currentTarget.value;
            }}
          >
            {MASSES.map((mass) => (
              <option key={mass} value={String(mass)}>
                {mass === 100 ? "everything" : `${mass} % of the mass`}
              </option>
            ))}
          </select>
        </label>
        {state.zoom.value !== null && (
          <button type="button" class="link" onClick={() => state.setZoom(null)}>
            show all
          </button>
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
              shown={name === "teacher" ? teacher : student}
              patch={patches[name]}
              scale={scale}
            />
          ),
        )}
        <DifferenceColumn state={state} heads={heads} patches={patches} />
      </div>
      {heads.length > 0 && <RowProfile state={state} heads={heads} />}
    </section>
  );
}

interface HeadColumnProps {
  state: AttentionState;
  name: SideName;
  shown: ShownHead | undefined;
  patch: MatrixPatch | null;
  scale: ValueScale;
}

function HeadColumn({ state, name, shown, patch, scale }: HeadColumnProps) {
  const query = state.query.value;
  const readMass = useHiddenMass(shown?.head, shown?.filter.hidden ?? []);
  const hiddenMass = shown?.hiddenMass ?? readMass;
  const leftOut =
    shown === undefined ? "" : leftOutText(shown.overview, shown.choice.layer, shown.choice.head);
  const picture = useMemo<MatrixPicture | null>(
    () =>
      shown === undefined
        ? null
        : {
            matrix: shown.matrix,
            rows: shown.head.queries,
            columns: shown.head.keys,
            patch,
            colorIndex: (value) => scale.index(value),
            colors: SEQUENTIAL,
            rowLabels: shown.queryLabels,
            columnLabels: shown.keyLabels,
            rowTitle: "queries",
            columnTitle: "keys",
            selectedRow: Math.min(query, shown.head.queries - 1),
          },
    [shown, patch, scale, query],
  );
  const { status, error } = state.data[name].matrix.state.value;
  const hasNone = state.overview(name) !== undefined && state.chosen[name].value === null;
  const isExact = patch !== null && patch.matrix.rows === patch.box.height;
  return (
    <div class="head-column">
      <HeadPicker state={state} name={name} />
      {shown === undefined || picture === null ? (
        <p class="hint">
          {status === "failed"
            ? error?.message
            : status === "ready"
              ? "This layer was not captured; Sources says why."
              : hasNone
                ? `No attention of the ${name} was captured; Sources says why.`
                : "Reading the head …"}
        </p>
      ) : (
        <>
          <MatrixView
            label={`${name}, layer ${shown.choice.layer}, head ${shown.choice.head}`}
            picture={picture}
            dark={state.session.dark.value}
            describe={(cell) => describeCell(shown, patch, cell)}
            onSelect={({ row }) => state.setQuery(row)}
            view={state.zoom.value}
            onView={(view) => state.setZoom(view)}
          />
          <p>
            <span class={shown.head.isFull ? "soft" : "guarantee"}>
              {guaranteeText(shown, patch, isExact)}
            </span>
            {leftOut !== "" && <span class="guarantee"> · {leftOut}; its statistics leave them out</span>}
            {hiddenMass > 0 && (
              <span class="guarantee">
                {" "}
                {(100 * hiddenMass).toFixed(1)} % of the mass is on hidden special tokens
              </span>
            )}
          </p>
        </>
      )}
    </div>
  );
}

function guaranteeText({ head }: ShownHead, patch: MatrixPatch | null, isExact: boolean): string {
  if (patch === null || head.parts === null) {
    const rows = head.parts?.rows;
    return rows
      ? `${head.guarantee} · ${rows.length} queries in full: ${head.parts?.guarantee}`
      : head.guarantee;
  }
  if (isExact) return `full resolution, ${head.parts.guarantee}`;
  const { matrix, box } = patch;
  const cell = `${Math.ceil(box.height / matrix.rows)} × ${Math.ceil(box.width / matrix.columns)}`;
  return `a cell is the largest of about ${cell} probabilities; zoom in for single ones, ${head.parts.guarantee}`;
}

function describeCell(
  { head, matrix, queryLabels, keyLabels, queryWords, keyWords, name }: ShownHead,
  patch: MatrixPatch | null,
  { row, column }: MatrixCell,
): string {
  const all = { x: 0, y: 0, width: head.keys, height: head.queries };
  const isInPatch = patch !== null && overlap(patch.box, { x: column, y: row, width: 1, height: 1 }) !== null;
  const { value, isExact } =
    patch !== null && isInPatch
      ? valueAt(patch.matrix, patch.box, row, column)
      : valueAt(matrix, all, row, column);
  const said = rowStateWords(head, row);
  const shown = said !== "" ? said : Number.isNaN(value) ? "hidden" : exact(value);
  return [
    `${name}: ${shown}${isExact || said !== "" ? "" : " (largest of the block)"}`,
    `query ${row} “${readable(queryLabels[row])}”${ofWord(queryWords[row])}`,
    `key ${column} “${readable(keyLabels[column])}”${ofWord(keyWords[column])}`,
  ].join("\n");
}

function readable(label = ""): string {
  return shortened(label, MOST_READ);
}

function ofWord(word: string | undefined): string {
  return word ? ` of “${readable(word)}”` : "";
}

function exact(value: number): string {
  return value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(3) : value.toFixed(5);
}

interface DifferenceProps {
  state: AttentionState;
  heads: readonly ShownHead[];
  patches: Record<SideName, MatrixPatch | null>;
}

function DifferenceColumn({ state, heads, patches }: DifferenceProps) {
  const [teacher, student] = heads;
  const kind = state.scale.value;
  const change = useMemo(
    () =>
      teacher !== undefined && student !== undefined && sameShape(teacher.matrix, student.matrix)
        ? difference(student.matrix, teacher.matrix)
        : null,
    [teacher, student],
  );
  const patch = useMemo<MatrixPatch | null>(() => {
    const [a, b] = [patches.teacher, patches.student];
    return a !== null && b !== null && sameShape(a.matrix, b.matrix) && sameBox(a.box, b.box)
      ? { matrix: difference(b.matrix, a.matrix), box: a.box }
      : null;
  }, [patches.teacher, patches.student]);
  const largest = useMemo(() => (change === null ? 0 : extent(change)), [change]);
  const query = state.query.value;
  const picture = useMemo<MatrixPicture | null>(() => {
    if (change === null || teacher === undefined) return null;
    const scale = new SignedScale(kind, largest);
    return {
      matrix: change,
      rows: teacher.head.queries,
      columns: teacher.head.keys,
      patch,
      colorIndex: (value) => scale.index(value),
      colors: SIGNED,
      rowLabels: teacher.queryLabels,
      columnLabels: teacher.keyLabels,
      rowTitle: "queries",
      columnTitle: "keys",
      selectedRow: Math.min(query, teacher.head.queries - 1),
    };
  }, [change, patch, largest, teacher, kind, query]);
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
          const all = { x: 0, y: 0, width: teacher.head.keys, height: teacher.head.queries };
          const { value } =
            patch !== null && overlap(patch.box, { x: column, y: row, width: 1, height: 1 }) !== null
              ? valueAt(patch.matrix, patch.box, row, column)
              : valueAt(change, all, row, column);
          return `student − teacher: ${value > 0 ? "+" : ""}${exact(value)}\nquery “${readable(teacher.queryLabels[row])}”\nkey “${readable(teacher.keyLabels[column])}”`;
        }}
        onSelect={({ row }) => state.setQuery(row)}
        view={state.zoom.value}
        onView={(view) => state.setZoom(view)}
      />
    </div>
  );
}

function sameBox(a: Box, b: Box): boolean {
  return a.x === b.x && a.y === b.y && a.width === b.width && a.height === b.height;
}

function sameShape(a: Matrix, b: Matrix): boolean {
  return a.rows === b.rows && a.columns === b.columns;
}
