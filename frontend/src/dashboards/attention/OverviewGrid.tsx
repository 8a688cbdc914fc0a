import { useMemo, useState } from "preact/hooks";
import { type SheetCell, SheetLayout } from "../../heatmap/sheet_layout";
import type { AttentionOverview } from "../../wire/attention";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { ChosenHeads } from "./ChosenHeads";
import { colour, type Shown } from "./colouring";
import { HeadTable } from "./HeadTable";
import { Notes } from "./LayerMap";
import { Legend } from "./Legend";
import { leftOutText } from "./left_out";
import { RowMarks } from "./RowMarks";
import { Sheet } from "./Sheet";
import { STATISTICS, statisticText } from "./statistics";
import { useWidth } from "./use_width";
import { ViewOptions } from "./ViewOptions";

const MARGIN = 34;
const GAP = 24;
/** Reasons that are listed under a grid. */
const MOST_REASONS = 4;
/** Space that the chosen heads take beside the grids. */
const CHOSEN_WIDTH = 330;

/** Every head of both models at once, on one colour scale. */
export function OverviewGrid({ state }: { state: AttentionState }) {
  const { element, width } = useWidth<HTMLDivElement>();
  const [isTableOpen, setTableOpen] = useState(false);
  const teacher = state.overview("teacher");
  const student = state.overview("student");
  const bases = {
    teacher: state.data.teacher.base.value,
    student: state.data.student.base.value,
  };
  const scale = state.scale.value;
  const statistic = state.statistic.value;
  const wanted = state.plane.value;
  // Until the other plane has arrived the maps stay as they are.
  const hasArrived = [teacher, student].every((overview) => overview === undefined || overview.has(wanted));
  const plane = hasArrived ? wanted : "maximum";
  const shown = useMemo(() => {
    const models: (Shown & { name: SideName })[] = [];
    for (const name of SIDES) {
      const overview = name === "teacher" ? teacher : student;
      if (overview !== undefined) models.push({ name, overview, base: bases[name] });
    }
    return models;
  }, [teacher, student, bases.teacher, bases.student]);
  const layouts = useMemo(() => {
    const lengths = shown.map(({ overview }) => overview.layers.map((layer) => layer.heads || 1));
    const longest = Math.max(1, ...lengths.flat());
    const share = (width - GAP * (shown.length - 1)) / Math.max(1, shown.length);
    // The same size on both sides, so that neither model looks more important.
    const rows = Math.max(1, ...lengths.map((layers) => layers.length));
    const inView = Math.max(48, Math.min(128, Math.floor((innerHeight - 290) / rows) - 2));
    const size = SheetLayout.fit(longest, share, MARGIN, { min: 12, max: inView });
    return lengths.map((layers) => new SheetLayout(layers, size, MARGIN));
  }, [shown, width]);
  const side = Math.round((layouts[0]?.size ?? 0) * (devicePixelRatio || 1));
  state.thumbnailSide = side;
  const colouring = useMemo(
    () => colour(shown, { scale, plane, statistic, side }),
    [shown, scale, plane, statistic, side],
  );
  const used = layouts.reduce((sum, layout) => sum + layout.width + GAP, 0);
  const showsMaps = statistic === "" && plane === "maximum" && !colouring.isSigned;
  const scaleMaximum = showsMaps ? colouring.maximum : null;
  // A model without layers says why, in as much space as it takes.
  const hasRoom = width - used >= CHOSEN_WIDTH && shown.every(({ overview }) => overview.layers.length > 0);
  const label =
    statistic === "" ? (plane === "mass" ? "probability mass" : "probability") : statisticLabel(statistic);
  return (
    <section class="overview" aria-label="All heads">
      <div class="view-bar">
        <Legend
          colors={colouring.colors}
          kind={scale}
          maximum={colouring.maximum}
          isSigned={colouring.isSigned}
          label={colouring.isSigned ? `change of ${label}` : label}
        />
        <RowMarks matrices={colouring.thumbnails.flat().map(({ matrix }) => matrix)} />
        <ViewOptions state={state} view="overview" />
      </div>
      <div class="overview-grids" ref={element}>
        {shown.map(({ name, overview }, index) => (
          <OverviewSide
            key={name}
            state={state}
            name={name}
            overview={overview}
            layout={layouts[index]!}
            thumbnails={colouring.thumbnails[index] ?? []}
          />
        ))}
        {hasRoom && <ChosenHeads state={state} scaleMaximum={scaleMaximum} />}
      </div>
      {!hasRoom && <ChosenHeads state={state} scaleMaximum={scaleMaximum} />}
      <details class="as-table" onToggle={(event) => setTableOpen(event.currentTarget.open)}>
        <summary>As a table: every head with its statistics</summary>
        {/* Thousands of rows: only for those who look at them. */}
        {isTableOpen && <HeadTable state={state} />}
      </details>
    </section>
  );
}

function statisticLabel(id: string): string {
  return STATISTICS.find((statistic) => statistic.id === id)?.label ?? id;
}

interface OverviewSideProps {
  state: AttentionState;
  name: SideName;
  overview: AttentionOverview;
  layout: SheetLayout;
  thumbnails: ReturnType<typeof colour>["thumbnails"][number];
}

function OverviewSide({ state, name, overview, layout, thumbnails }: OverviewSideProps) {
  const rowLabels = useMemo(
    () => overview.layers.map(({ relation }, layer) => (relation === "cross" ? `${layer} ×` : String(layer))),
    [overview],
  );
  const hasCross = overview.layers.some(({ relation }) => relation === "cross");
  const chosen = state.chosen[name].value;
  const describe = ({ row, column }: SheetCell) => describeHead(overview, row, column);
  const select = (cell: SheetCell, alone: boolean) =>
    state.choose(name, { layer: cell.row, head: cell.column }, alone);
  return (
    <div class="overview-side">
      <h2>
        <span class="letter" aria-hidden="true">
          {name === "teacher" ? "T" : "S"}
        </span>{" "}
        {overview.header.model}
        <span class="soft"> layers ↓ heads →{hasCross && " · × cross-attention"}</span>
      </h2>
      {overview.layers.length === 0 && <Notes notes={overview.header.notes} />}
      <Sheet
        label={`Heads of the ${name}`}
        layout={layout}
        thumbnails={thumbnails}
        rowLabels={rowLabels}
        dark={state.session.dark.value}
        selected={chosen === null ? null : { row: chosen.layer, column: chosen.head }}
        describe={describe}
        onSelect={select}
        onOpen={(cell) => {
          select(cell, false);
          state.view.value = "head";
        }}
      />
      <NotCaptured overview={overview} />
    </div>
  );
}

/** Why some layers have no maps, under the grid: their frames alone do not say. */
function NotCaptured({ overview }: { overview: AttentionOverview }) {
  const missing = overview.layers.flatMap((record, layer) =>
    record.notCaptured === "" ? [] : [{ record, layer }],
  );
  if (missing.length === 0) return null;
  return (
    <ul class="notes">
      {missing.slice(0, MOST_REASONS).map(({ record, layer }) => (
        <li key={layer}>
          layer {layer} <span class="mono">{record.modulePath || "(model)"}</span> not captured:{" "}
          {record.notCaptured}
        </li>
      ))}
      {missing.length > MOST_REASONS && <li>{missing.length - MOST_REASONS} more, see Sources</li>}
    </ul>
  );
}

/** What a head is, in a few lines. */
export function describeHead(overview: AttentionOverview, layer: number, head: number): string {
  const record = overview.layers[layer];
  if (record === undefined) return "";
  const place = `layer ${layer} · head ${head}\n${record.modulePath || "(model)"}`;
  if (record.notCaptured !== "") return `${place}\nnot captured: ${record.notCaptured}`;
  const group = record.keyHeads > 0 && record.keyHeads < record.heads;
  const lines = STATISTICS.slice(0, 6).map(
    ({ id, label }) => `${label} ${statisticText(overview.statistic(id, layer, head))}`,
  );
  return [
    place + (group ? ` · key head ${Math.floor((head * record.keyHeads) / record.heads)}` : ""),
    `${record.queryLength} queries × ${record.keyLength} keys, ${record.relation || "self"}-attention`,
    leftOutText(overview, layer, head),
    ...lines,
  ]
    .filter((line) => line !== "")
    .join("\n");
}
