import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Totals } from "../../gen/tb_plugin_structure/v1/structure_pb";
import { announce } from "../../ui/announce";
import { Button } from "../../ui/Button";
import type { Chip } from "../../ui/Chips";
import { copyText } from "../../ui/copy";
import { type ExportItem, Frame } from "../../ui/Frame";
import { exactNumber, ratio, shortBytes, shortDuration, shortNumber } from "../../ui/format";
import { useKeys } from "../../ui/keys";
import { Later } from "../../ui/Later";
import { Show } from "../../ui/States";
import type { Session } from "../../ui/session";
import { comparisonParameters } from "../../wire/comparison";
import { routeUrl } from "../../wire/request";
import type { AuditState, AuditTable } from "./audit_state";
import { DataTable } from "./DataTable";
import { DetailDrawer } from "./DetailDrawer";
import { FindingsPanel } from "./FindingsPanel";
import { rowExports, TableTools } from "./TableTools";
import { VERDICTS, verdictStyle } from "./verdicts";

const KEYS = [
  ["↑ ↓ ← →", "move in the table"],
  ["Space", "unfold a row or a stage"],
  ["Enter", "details of the row"],
  ["n  N", "next, previous finding"],
  ["y", "copy the adapter's code"],
  ["l", "stages, blocks, leaves"],
  ["[ ]", "step before, after, of measured values"],
] as const;

const LEVEL_NAMES = [
  [1, "stages"],
  [2, "blocks"],
  [3, "leaves"],
] as const;

const loadMeasuredChoice = () => import("./MeasuredChoice").then(({ MeasuredChoice }) => MeasuredChoice);
const loadMeasuredStep = () => import("./MeasuredChoice").then(({ MeasuredStep }) => MeasuredStep);

interface PairAuditProps {
  session: Session;
  state: AuditState;
  empty: { title: string; text: string; code: string };
}

/** Teacher against student, row by row. */
export function PairAudit({ session, state, empty }: PairAuditProps) {
  const table = state.audit.value;
  const finding = useSignal(-1);
  const search = useRef<HTMLInputElement>(null);
  const findings = table === undefined ? [] : sortedFindings(table);
  const jump = (index: number) => {
    const row = findings[index]?.row ?? -1;
    finding.value = index;
    if (row >= 0) state.jumpTo(row);
  };
  const step = (by: number) => {
    if (findings.length > 0) jump((finding.value + by + findings.length) % findings.length);
  };
  useKeys({
    "/": () => search.current?.focus(),
    n: () => step(1),
    N: () => step(-1),
    l: () => state.setLevel((state.level.value % 3) + 1),
    "[": () => state.measured.value?.moveStep(-1) ?? false,
    "]": () => state.measured.value?.moveStep(1) ?? false,
    y: () => {
      const code = table?.rows.text("adapter_code", state.selected.value) ?? "";
      if (state.selected.value >= 0 && code !== "")
        void copyText(code).then(() => announce("Copied the adapter"));
    },
    Escape: () => {
      if (document.activeElement === search.current) search.current?.blur();
      else state.drawerOpen.value = "";
    },
  });
  return (
    <Frame
      session={session}
      sentence={table?.rows.message.summary ?? null}
      chips={table === undefined ? [] : verdictChips(state)}
      onChip={(id) => state.toggleVerdict(id)}
      exports={table === undefined ? [] : exportItems(session, state, table)}
      hasPolicy
      keys={KEYS}
      empty={empty}
    >
      {() => (
        <Show resource={state.audit} onRetry={() => state.retry()}>
          {(shown) => (
            <div class="audit">
              {findings.length > 0 && (
                <section
                  class={`findings-panel${state.findingsFolded.value === "" ? "" : " folded"}`}
                  aria-label="Findings"
                >
                  <h2>
                    <button
                      type="button"
                      aria-expanded={state.findingsFolded.value === ""}
                      onClick={() => {
                        state.findingsFolded.value = state.findingsFolded.value === "" ? "folded" : "";
                      }}
                    >
                      {state.findingsFolded.value === "" ? "▾" : "▸"} Findings{" "}
                      <span class="soft">{findings.length}</span>
                    </button>
                  </h2>
                  {state.findingsFolded.value === "" && (
                    <FindingsPanel findings={findings} current={finding.value} onJump={jump} />
                  )}
                </section>
              )}
              <section class="table-panel" aria-label="Pairs">
                <TableTools
                  searchRef={search}
                  searched="these columns"
                  find={state.find.value}
                  onFind={(text) => {
                    state.find.value = text;
                  }}
                  model={shown.model}
                  visible={state.columns.value}
                  onToggleColumn={(id) => state.toggleColumn(id)}
                  onResetColumns={() => state.resetColumns()}
                  choices={
                    <div class="segments" role="group" aria-label="Level of detail">
                      {LEVEL_NAMES.map(([level, name]) => (
                        <Button
                          key={name}
                          label={`Show ${name}`}
                          pressed={state.level.value === level}
                          onClick={() => state.setLevel(level)}
                        >
                          {name}
                        </Button>
                      ))}
                    </div>
                  }
                  measured={
                    state.measured.value && (
                      <Later load={loadMeasuredChoice} with={{ state, measured: state.measured.value }} />
                    )
                  }
                >
                  <RowCount state={state} table={shown} />
                  <span class="spring" />
                  <TotalsLine table={shown} />
                </TableTools>
                {state.measured.value && (
                  <Later load={loadMeasuredStep} with={{ measured: state.measured.value }} />
                )}
                <div class="table-host">
                  <DataTable
                    label="Shape audit"
                    model={shown.model}
                    visible={state.columns.value}
                    selected={state.selected.value}
                    version={state.version.value}
                    onSelect={(row) => state.select(row)}
                    onActivate={(row) => {
                      state.select(row);
                      state.drawerOpen.value = "1";
                    }}
                    onChange={() => state.readFromTable()}
                    rowClass={(row) => `verdict-${verdictStyle(shown.rows.verdict(row)).id}`}
                  />
                </div>
              </section>
              {state.drawerOpen.value !== "" && state.selected.value >= 0 && (
                <DetailDrawer
                  rows={shown.rows}
                  row={state.selected.value}
                  onClose={() => {
                    state.drawerOpen.value = "";
                  }}
                  onGraph={() => session.goTo("graph_diff")}
                />
              )}
            </div>
          )}
        </Show>
      )}
    </Frame>
  );
}

function sortedFindings({ rows }: AuditTable) {
  return [...rows.message.findings].sort((a, b) => b.severity - a.severity);
}

function verdictChips(state: AuditState): Chip[] {
  const counts = state.verdictCounts();
  return VERDICTS.map((style) => ({
    id: style.id,
    glyph: style.glyph,
    label: style.word,
    count: counts.get(style.id) ?? 0,
    tone: style.tone,
    tip: style.meaning,
    pressed: state.verdicts.value.has(style.id),
  }));
}

/** How much of the table is shown, and the way back to all of it. */
function RowCount({ state, table }: { state: AuditState; table: AuditTable }) {
  void state.version.value;
  const shown = table.model.rows().length;
  const isFiltered =
    table.model.isSearching || state.verdicts.value.size > 0 || table.model.sortOrder !== null;
  return (
    <span class="row-count" role="status">
      <span class="soft">
        {exactNumber(shown)} of {exactNumber(table.rows.count)} rows
      </span>
      {isFiltered && (
        <Button label="Lift all filters and the order" onClick={() => state.showAll()}>
          show all
        </Button>
      )}
    </span>
  );
}

function TotalsLine({ table }: { table: AuditTable }) {
  const { teacherTotals: t, studentTotals: s } = table.rows.message;
  if (t === undefined || s === undefined) return null;
  const part = (label: string, read: (totals: Totals) => number, format: (value: number) => string) => (
    <span data-tip={`${label}\nT ${exactNumber(read(t))}\nS ${exactNumber(read(s))}`}>
      {format(read(t))} → {format(read(s))} {label} <b>{ratio(read(s), read(t))}</b>
    </span>
  );
  return (
    <p class="totals">
      {part("params", (totals) => Number(totals.parameters), shortNumber)}
      {part("MACs", (totals) => totals.macs, shortNumber)}
      {part("activations", (totals) => Number(totals.activationBytes), shortBytes)}
      {t.durationNs > 0n &&
        s.durationNs > 0n &&
        part("time", (totals) => Number(totals.durationNs), shortDuration)}
      <TrainingMemoryText table={table} />
    </p>
  );
}

/** What training the student beside the teacher takes. */
function TrainingMemoryText({ table }: { table: AuditTable }) {
  const memory = table.rows.message.trainingMemory;
  if (memory === undefined) return null;
  const parts: [string, bigint][] = [
    ["teacher weights", memory.teacherWeights],
    ["student weights", memory.studentWeights],
    ["gradients", memory.studentGradients],
    ["AdamW states", memory.optimizerStates],
    [
      memory.activationsMeasured ? "activations kept for backward" : "activations, at most",
      memory.studentActivations,
    ],
  ];
  if (memory.teacherPeak > 0n) parts.push(["teacher's pass", memory.teacherPeak]);
  const lines = parts.map(([name, bytes]) => `${name} ${shortBytes(Number(bytes))}`);
  return (
    <span data-tip={["Training both, at the recorded batch", ...lines].join("\n")}>
      <b>{shortBytes(Number(memory.total))}</b> to train both
    </span>
  );
}

function exportItems(session: Session, state: AuditState, table: AuditTable): ExportItem[] {
  const report = (format: string) => () => {
    const teacher = session.teacher.value;
    const student = session.student.value;
    if (teacher === null || student === null) return;
    const parameters = comparisonParameters(teacher.address, student.address, session.intent.value);
    const link = document.createElement("a");
    link.href = routeUrl("api/audit", { ...parameters, format });
    link.download = "";
    link.click();
  };
  return [
    ...rowExports(table.model, state.columns.value, "shape_audit"),
    { label: "Download the report as Markdown", run: report("markdown") },
    { label: "Download the report as CSV", run: report("csv") },
    { label: "Download the report as JSON", run: report("json") },
  ];
}
