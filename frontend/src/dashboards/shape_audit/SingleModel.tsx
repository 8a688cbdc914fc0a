import { useRef } from "preact/hooks";
import { Button } from "../../ui/Button";
import { Frame } from "../../ui/Frame";
import { exactNumber, shortBytes, shortDuration, shortNumber } from "../../ui/format";
import { useKeys } from "../../ui/keys";
import { Show } from "../../ui/States";
import type { Session } from "../../ui/session";
import { DataTable } from "./DataTable";
import type { OperatorRows } from "./operator_rows";
import type { OperatorState, OperatorTable } from "./operator_state";
import { rowExports, TableTools } from "./TableTools";

const KEYS = [
  ["↑ ↓ ← →", "move in the table"],
  ["Space", "fold a stage"],
  ["Enter", "details of the operator"],
  ["c", "only where the shape changes"],
] as const;

interface SingleModelProps {
  session: Session;
  state: OperatorState;
  empty: { title: string; text: string; code: string };
}

/** One model without a counterpart: every operator with its shapes and its cost. */
export function SingleModel({ session, state, empty }: SingleModelProps) {
  const table = state.operators.value;
  const search = useRef<HTMLInputElement>(null);
  const toggleChanges = () => {
    state.changesOnly.value = state.changesOnly.value === "" ? "1" : "";
  };
  useKeys({
    "/": () => search.current?.focus(),
    c: toggleChanges,
    Escape: () => {
      if (document.activeElement === search.current) search.current?.blur();
      else state.drawerOpen.value = "";
    },
  });
  return (
    <Frame
      session={session}
      sentence={table === undefined ? null : sentence(table)}
      exports={table === undefined ? [] : rowExports(table.model, state.columns.value, "operators")}
      keys={KEYS}
      empty={empty}
    >
      {() => (
        <Show resource={state.operators} onRetry={() => state.retry()}>
          {({ rows, model }) => (
            <div class="audit">
              <section class="table-panel" aria-label="Operators">
                <TableTools
                  searchRef={search}
                  searched="all columns"
                  find={state.find.value}
                  onFind={(text) => {
                    state.find.value = text;
                  }}
                  model={model}
                  visible={state.columns.value}
                  onToggleColumn={(id) => state.toggleColumn(id)}
                  onResetColumns={() => state.resetColumns()}
                  choices={
                    <Button
                      label="Only operators whose output has a shape that no input has (c)"
                      pressed={state.changesOnly.value !== ""}
                      onClick={toggleChanges}
                    >
                      where the shape changes
                    </Button>
                  }
                >
                  <span class="row-count soft" role="status">
                    {state.version.value >= 0 && exactNumber(model.rows().length)} of{" "}
                    {exactNumber(rows.count)} operators
                  </span>
                </TableTools>
                <div class="table-host">
                  <DataTable
                    label="Operators"
                    model={model}
                    visible={state.columns.value}
                    selected={state.selected.value}
                    version={state.version.value}
                    onSelect={(row) => state.select(row)}
                    onActivate={() => {
                      state.drawerOpen.value = "1";
                    }}
                    onChange={() => {
                      state.version.value++;
                    }}
                  />
                </div>
              </section>
              {state.drawerOpen.value !== "" && state.selected.value >= 0 && (
                <OperatorDrawer
                  rows={rows}
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

function sentence({ rows }: OperatorTable): string {
  const { header } = rows.structure;
  const { totals } = header;
  const parts = [
    `${header.modelClass} ran ${exactNumber(rows.count)} operators`,
    `${shortNumber(Number(totals?.parameters ?? 0))} parameters`,
    `${shortNumber(totals?.macs ?? Number.NaN)} MACs`,
    `${shortBytes(Number(totals?.activationBytes ?? 0))} of activations`,
  ];
  if (totals !== undefined && totals.durationNs > 0n) parts.push(shortDuration(Number(totals.durationNs)));
  if (totals !== undefined && totals.savedBytes > 0n)
    parts.push(`${shortBytes(Number(totals.savedBytes))} kept for the backward pass`);
  if (totals !== undefined && totals.peakBytes > 0n)
    parts.push(`at most ${shortBytes(Number(totals.peakBytes))} at once`);
  return `${parts.join(", ")}. Pick a student to compare it.`;
}

function OperatorDrawer(props: {
  rows: OperatorRows;
  row: number;
  onClose: () => void;
  onGraph: () => void;
}) {
  const { rows, row } = props;
  const { tensors } = rows.structure;
  const list = (side: "inputs" | "outputs") => (
    <ul>
      {Array.from(rows.structure.operators.row(side, row)).map((tensor) => (
        <li key={tensor} class="mono">
          {rows.shape(tensor)}{" "}
          <span class="soft">
            {tensors.text("dtype", tensor)} {tensors.text("name", tensor)}
          </span>
        </li>
      ))}
    </ul>
  );
  return (
    <aside class="drawer" aria-label="Details of the selected operator">
      <header>
        <h2 class="mono">{rows.name(row)}</h2>
        <span class="spring" />
        <Button label="Show this place in Graph diff (1)" onClick={props.onGraph}>
          Graph
        </Button>
        <Button label="Close" onClick={props.onClose}>
          ✕
        </Button>
      </header>
      <p class="mono">{rows.path(row) || "(model)"}</p>
      {rows.source(row) !== "" && <p class="mono soft">{rows.source(row)}</p>}
      <section>
        <h3>Reads</h3>
        {list("inputs")}
      </section>
      <section>
        <h3>Makes</h3>
        {list("outputs")}
      </section>
      {rows.attributes(row).length > 0 && (
        <section>
          <h3>Attributes</h3>
          <dl class="attributes">
            {rows.attributes(row).map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd class="mono">{value}</dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      <p class="soft">
        {exactNumber(rows.macs(row))} MACs, {exactNumber(rows.bytes(row))} bytes of new storage,{" "}
        {rows.hasSaved && `${exactNumber(rows.savedBytes(row))} bytes kept for the backward pass, `}
        {rows.hasTimes ? shortDuration(rows.duration(row)) : "time not recorded"}
      </p>
    </aside>
  );
}
