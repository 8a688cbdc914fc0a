import { useEffect, useMemo } from "preact/hooks";
import type { Chip } from "../../ui/Chips";
import { STRUCTURE_EXAMPLE } from "../../ui/examples";
import { type ExportItem, Frame } from "../../ui/Frame";
import type { KeyHelp } from "../../ui/Help";
import { useKeys } from "../../ui/keys";
import { KINDS } from "../../ui/kinds";
import { Later } from "../../ui/Later";
import { Show } from "../../ui/States";
import type { Session } from "../../ui/session";
import { adoptStyles } from "../../ui/styles";
import { isReport } from "../../wire/embedded";
import type { Comparison } from "./comparison";
import { DiffToolbar } from "./DiffToolbar";
import { DiffState } from "./diff_state";
import { type GraphCommands, GraphPane, placeSide } from "./GraphPane";
import css from "./graph_diff.css?inline";
import { measuredName } from "./measured_colouring";
import { Outline, outlineKey } from "./Outline";
import { Overview } from "./Overview";
import { outlineRows, rowOf } from "./outline_rows";
import { pairOptions } from "./pins";
import { Splitter } from "./Splitter";
import { sentenceOf } from "./sentence";

const EMPTY = {
  title: "No model recorded yet",
  text: "Record a teacher and a student with one forward pass each, and this tab shows what differs between them:",
  code: STRUCTURE_EXAMPLE,
};

const KEYS: KeyHelp = [
  ["↑ ↓", "previous, next row"],
  ["← →", "close or go up, open or go in"],
  ["Enter", "open or close"],
  ["Space", "choose a second node"],
  ["Shift+arrows", "move the graph"],
  ["f", "fit"],
  ["z", "zoom to the selection"],
  ["+ −", "zoom"],
  ["e  c", "open everything, back to the first picture"],
  ["u  d  p", "upstream, downstream, between two nodes"],
  ["[ ]", "step before, after, of measured colours"],
  ["m", "pair the two chosen nodes"],
  ["x", "unpair"],
  ["Ctrl+Z", "undo a change of pairs; with Shift redo"],
];

const MERGED_NOTE = "cards: the student's value, else the teacher's";

/** How far a key moves the graph. */
const PAN_PIXELS = 80;

const loadInspector = () => import("./Inspector").then(({ Inspector }) => Inspector);
const loadMeasuredBar = () => import("../../ui/MeasuredBar").then(({ MeasuredBar }) => MeasuredBar);
const loadPlanDialog = () => import("./PlanDialog").then(({ PlanDialog }) => PlanDialog);

/** The Graph diff tab. */
export function GraphDiff({ session }: { session: Session }) {
  const state = useMemo(() => new DiffState(session), [session]);
  const commands = useMemo<GraphCommands>(() => {
    const graph = { view: null, scene: null, plan: null, client: null };
    return { ...graph, outline: null, rows: [], link: null, moved: scrollTogether(state) };
  }, [state]);
  useEffect(() => void adoptStyles(css), []);
  useDiffKeys(state, commands);
  const comparison = state.comparison.value;
  const isPair = comparison?.tree.sides.student != null;
  return (
    <Frame
      session={session}
      sentence={comparison ? sentenceOf(comparison) : null}
      {...(isPair ? { chips: chipsOf(state) } : {})}
      onChip={(id) => state.toggleKind(id)}
      exports={exportsOf(state, commands)}
      keys={KEYS}
      hasPolicy
      empty={EMPTY}
    >
      {() => (
        <Show resource={state.comparison} onRetry={() => state.reload()}>
          {(comparison) => <Panes state={state} commands={commands} comparison={comparison} />}
        </Show>
      )}
    </Frame>
  );
}

/** What follows when something is moved loads with the first movement, which leads nothing yet. */
function scrollTogether(state: DiffState): GraphCommands["moved"] {
  let isLoading = false;
  return function (this: GraphCommands, what) {
    if (this.link) what === "outline" ? this.link.outlineScrolled() : this.link.graphMoved();
    else if (!isLoading) {
      isLoading = true;
      void import("./linked_scroll").then(({ LinkedScroll }) => {
        this.link = new LinkedScroll(this, () => state.scrolling.peek() === "together");
      });
    }
  };
}

function Panes(props: { state: DiffState; commands: GraphCommands; comparison: Comparison }) {
  const { state, commands, comparison } = props;
  const view = state.view.value;
  const measured = state.measured.value;
  const colouredBy = measuredName(state.colouring.value);
  const hasOutline = view !== "graph";
  const hasGraph = view !== "outline";
  return (
    <div class="diff">
      <DiffToolbar state={state} commands={commands} />
      {measured && colouredBy && (
        <Later
          load={loadMeasuredBar}
          with={{
            state: measured.state,
            name: colouredBy,
            note:
              hasGraph && comparison.tree.sides.student && state.arrangementName === "merged"
                ? MERGED_NOTE
                : "",
          }}
        />
      )}
      {state.trouble.value && (
        <p class="problems" role="alert">
          {state.trouble.value}
        </p>
      )}
      {state.session.isIntentLong.value && (
        <p class="problems">
          These pins are too long for the address. To keep them, save them or write them into the run:{" "}
          <button
            type="button"
            class="link"
            onClick={() => void import("./exports").then((it) => it.exportPlan(state))}
          >
            save
          </button>
          <button
            type="button"
            class="link"
            onClick={() => {
              state.planOpen.value = true;
            }}
          >
            write into the run
          </button>
        </p>
      )}
      <div class={`panes view-${view}`}>
        {hasOutline && <Outline state={state} commands={commands} />}
        {hasOutline && hasGraph && <Splitter label="Width of the outline" property="--outline-width" />}
        {hasGraph && <GraphPane state={state} commands={commands} />}
        {state.selected.value < 0 ? (
          <Overview state={state} comparison={comparison} />
        ) : (
          <Later
            load={loadInspector}
            with={{ state }}
            fallback={<aside class="inspector" aria-label="Details" />}
          />
        )}
      </div>
      {state.planOpen.value && <Later load={loadPlanDialog} with={{ state }} />}
    </div>
  );
}

function chipsOf(state: DiffState): Chip[] {
  const counts = state.comparison.value?.alignment?.message.counts ?? [];
  const pressed = state.filter.value;
  return KINDS.flatMap(({ id, kind, name, glyph, tone, meaning }) => {
    const count = Number(counts.find((entry) => entry.kind === kind)?.leaves ?? 0);
    if (!count && !pressed.has(kind)) return [];
    return [
      { id, glyph, label: name, count, tone, tip: `${meaning}; leaf modules`, pressed: pressed.has(kind) },
    ];
  });
}

/** What can be exported; how is loaded when someone does. */
function exportsOf(state: DiffState, commands: GraphCommands): ExportItem[] {
  const { value } = state.comparison;
  if (!value) return [];
  const item = (label: string, run: (exports: typeof import("./exports")) => unknown): ExportItem => ({
    label,
    run: () => void import("./exports").then(run),
  });
  const items = [item("Summary as Markdown", (exports) => exports.exportMarkdown(value))];
  if (state.view.value !== "outline") {
    items.push(
      item("Graph as SVG", (exports) => exports.exportSvg(state, commands, true)),
      item("Visible part as SVG", (exports) => exports.exportSvg(state, commands, false)),
      item("Graph as PNG", (exports) => exports.exportPng(state, commands)),
    );
  }
  if (isReport()) return items;
  items.push(item("Report as one HTML file", (exports) => exports.exportReport(state)));
  if (value.alignment) {
    items.push(
      item("Pins and policies as JSON", (exports) => exports.exportPlan(state)),
      item("Load pins and policies …", (exports) => exports.loadPlan(state)),
      {
        label: "Write pins and policies into the run …",
        run: () => {
          state.planOpen.value = true;
        },
      },
    );
  }
  return items;
}

function useDiffKeys(state: DiffState, commands: GraphCommands): void {
  const arrow = (key: string) => () => {
    const comparison = state.comparison.value;
    if (!comparison || document.activeElement?.matches("input, select, [role=treegrid], [role=separator]"))
      return false;
    const rows = outlineRows(comparison.tree, state.open.value, state.filter.value, comparison.counts);
    const position = rowOf(rows, state.selected.value);
    return outlineKey(new KeyboardEvent("keydown", { key }), state, rows, position, comparison.tree);
  };
  const pan = (x: number, y: number) => () =>
    commands.view ? commands.view.panBy(PAN_PIXELS * x, PAN_PIXELS * y) : false;
  const selected = () => state.selected.value;
  const enter = arrow("Enter");
  const onButton = () => document.activeElement?.matches("button, summary, a") ?? false;
  useKeys({
    ArrowUp: arrow("ArrowUp"),
    ArrowDown: arrow("ArrowDown"),
    ArrowLeft: arrow("ArrowLeft"),
    ArrowRight: arrow("ArrowRight"),
    Enter: () => (onButton() ? false : enter()),
    f: () => commands.view?.fit(),
    z: () => commands.view?.zoomTo(selected(), placeSide(commands.scene, selected())),
    "Shift+ArrowUp": pan(0, 1),
    "Shift+ArrowDown": pan(0, -1),
    "Shift+ArrowLeft": pan(1, 0),
    "Shift+ArrowRight": pan(-1, 0),
    "+": () => commands.view?.zoomBy(1.25),
    "-": () => commands.view?.zoomBy(0.8),
    e: () => state.openAll(Math.max(0, selected())),
    c: () => state.closeAll(),
    u: () => toggleCone(state, "upstream"),
    d: () => toggleCone(state, "downstream"),
    p: () => toggleCone(state, "between"),
    m: () => pairChosen(state),
    x: () => unpair(state),
    "[": () => moveMeasured(state, -1),
    "]": () => moveMeasured(state, 1),
    "Ctrl+z": () => state.undo(),
    "Ctrl+Shift+z": () => state.redo(),
    Escape: () => {
      if (commands.view?.cancelPairing()) return;
      if (state.dimension.value) state.dimension.value = null;
      else if (state.cone.value) state.cone.value = null;
      else if (state.marked.value >= 0) state.marked.value = -1;
      else if (state.kinds.value) state.kinds.value = "";
      else state.select(-1);
    },
  });
}

function toggleCone(state: DiffState, direction: "upstream" | "downstream" | "between"): void {
  state.cone.value = state.cone.value === direction ? null : direction;
}

/** To another step of what the colours are of; false when they are of something else. */
function moveMeasured(state: DiffState, by: number): boolean {
  const name = measuredName(state.colouring.value);
  const measured = state.measured.value;
  if (!name || !measured) return false;
  measured.state.moveStep(name, by);
  return true;
}

function pairChosen(state: DiffState): void {
  if (isReport()) return;
  const tree = state.comparison.value?.tree;
  const option = tree && pairOptions(tree, state.selected.value, state.marked.value)[0];
  if (option)
    state.changeIntent({ pins: { ...state.session.intent.value.pins, [option.student]: option.teacher } });
}

function unpair(state: DiffState): void {
  if (isReport()) return;
  const tree = state.comparison.value?.tree;
  const node = state.selected.value;
  const row = tree?.student[node] ?? -1;
  if (!tree?.sides.student || node <= 0 || tree.pair[node]! < 0 || row < 0 || !tree.hasSide(node, "teacher"))
    return;
  const path = tree.sides.student.callPath(row);
  state.changeIntent({ pins: { ...state.session.intent.value.pins, [path]: null } });
}
