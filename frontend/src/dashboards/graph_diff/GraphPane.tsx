import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { GraphView, type Pointed } from "../../graph/graph_view";
import { LayoutClient } from "../../graph/layout_client";
import { LayoutPlan } from "../../graph/layout_plan";
import type { Place } from "../../graph/scene";
import { Scene } from "../../graph/scene";
import { finishSliced } from "../../graph/sliced";
import { announce } from "../../ui/announce";
import { palette } from "../../ui/tokens";
import { tooltip } from "../../ui/tooltip";
import { isReport } from "../../wire/embedded";
import type { DiffState } from "./diff_state";
import type { LinkedScroll, Shown } from "./linked_scroll";
import { pairOptions } from "./pins";

/** Commands that the toolbar and the keys give to the graph. */
export interface GraphCommands extends Shown {
  plan: LayoutPlan | null;
  client: LayoutClient | null;
  /** Null until the reader has moved something. */
  link: LinkedScroll | null;
  /** Says that the reader has moved the outline or the graph, so that the other follows. */
  moved(what: "outline" | "graph"): void;
}

/** The canvas with the graph: turns the state into scenes, and what is done on the canvas into state. */
export function GraphPane({ state, commands }: { state: DiffState; commands: GraphCommands }) {
  const container = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const client = new LayoutClient();
    const view = new GraphView(container.current!, {
      select: (place, additive) => {
        if (additive && place) state.mark(place.node);
        else state.select(place?.node ?? -1, false);
      },
      toggle: ({ node, side }) => state.toggle(node, side, true),
      hover: (node) => {
        state.hovered.value = node;
      },
      moved: () => commands.moved("graph"),
      pair: (from, to) => pairPlaces(state, from, to),
      hint: (what, x, y) => hint(commands.scene, what, x, y),
    });
    Object.assign(commands, { view, client });

    let generation = 0;
    let latest = new AbortController();
    const stopScene = effect(() => {
      const comparison = state.comparison.value;
      const open = state.open.value;
      const arrangement = state.arrangementName;
      if (!comparison || open.size === 0) return;
      if (commands.plan?.tree !== comparison.tree || commands.plan.arrangement !== arrangement) {
        commands.plan = new LayoutPlan(comparison.tree, arrangement);
        generation++;
      }
      const plan = commands.plan;
      const anchor = state.anchor;
      latest.abort();
      latest = new AbortController();
      const { signal } = latest;
      const numbers = generation;
      const show = (specs: Map<number, number>) => {
        const scene = new Scene(plan, specs);
        const isNew = commands.scene?.tree !== scene.tree;
        commands.scene = scene;
        if (isNew && arrangement === "side by side" && !state.arrangement.peek() && view.isTooNarrow(scene)) {
          state.isNarrow.value = true;
          return;
        }
        view.setScene(scene, anchor, anchor?.isPointed ?? false);
        if (anchor) return;
        const target = state.target.peek();
        if (target > 0) view.reveal(target, placeSide(commands.scene, target));
        else view.fit();
      };
      const prepare = async () => {
        const specs = await finishSliced(
          plan.slicedSpecsOf((node) => open.has(node)),
          signal,
        );
        const missing = plan.missing(specs.values());
        if (missing.length) {
          for (const layout of await client.layout(numbers, missing)) plan.layouts.set(layout.id, layout);
        }
        if (signal.aborted) return;
        show(specs);
        setTimeout(() => void layAhead(plan, specs, client, numbers, signal), AHEAD_DELAY_MS);
      };
      prepare().catch((error: Error) => {
        if (!signal.aborted) state.trouble.value = error.message;
      });
    });
    const stopLook = effect(() => {
      const comparison = state.comparison.value;
      const painting = state.painting.value;
      if (!comparison || !painting) return;
      const faint = state.faint.value;
      const { set } = state.matches.value;
      view.setLook({
        picture: state.picture.value,
        palette: palette(state.session.dark.value),
        selected: state.selected.value,
        marked: state.marked.value,
        hovered: state.hovered.value,
        isFaint: (node) => faint !== null && faint[node] === 1,
        isMatch: (node) => set.has(node),
        colour: (node, side) => painting.colour(node, side),
        counts: comparison.counts,
        canPair: comparison.tree.sides.student !== null && !isReport(),
        weighEdges: state.weighEdges.value,
      });
    });
    const stopReveal = effect(() => {
      const node = state.target.value;
      if (node > 0 && commands.scene) view.reveal(node, placeSide(commands.scene, node));
    });
    return () => {
      latest.abort();
      stopScene();
      stopLook();
      stopReveal();
      view.dispose();
      client.dispose();
      Object.assign(commands, { view: null, client: null, scene: null, plan: null });
    };
  }, [state, commands]);
  return <div ref={container} class="graph-pane" />;
}

/** The picture is drawn first. */
const AHEAD_DELAY_MS = 60;

/** Lays out what may be opened next, one level at a time, so that whatever is wanted meanwhile does not wait. */
async function layAhead(
  plan: LayoutPlan,
  shown: ReadonlyMap<number, number>,
  client: LayoutClient,
  generation: number,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) return;
  try {
    for (const spec of await finishSliced(plan.slicedAhead(shown), signal)) {
      if (signal.aborted) return;
      for (const layout of await client.layout(generation, [spec])) plan.layouts.set(layout.id, layout);
    }
  } catch {
    // It is made when it is opened, and says then what is wrong.
  }
}

/** Pins two modules to each other, as a line between them says; the sides at its ends decide whose path is meant. */
function pairPlaces(state: DiffState, from: Place, to: Place): void {
  const tree = state.comparison.value?.tree;
  const t = from.side === "teacher" || to.side === "student" ? from : to;
  const option = tree && pairOptions(tree, t.node, t === from ? to.node : from.node)[0];
  if (!option) return;
  state.changeIntent({ pins: { ...state.session.intent.value.pins, [option.student]: option.teacher } });
  announce(`${option.teacher} is paired with ${option.student}`);
}

/** The side on which a node can be found: the teacher's unless only the student has it. */
export function placeSide(scene: Scene | null, node: number): "teacher" | "student" {
  return scene?.tree.hasSide(node, "teacher") === false ? "student" : "teacher";
}

function hint(scene: Scene | null, what: Pointed | null, x: number, y: number): void {
  const own = ++hints;
  if (!what || !scene) tooltip.hide();
  else if ("grip" in what) tooltip.show("Draw a line to the part that this shall be paired with", x, y);
  else {
    void import("./hints").then(({ edgeHint, nodeHint }) => {
      // The pointer may have moved on meanwhile.
      if (own !== hints) return;
      const text = "near" in what ? edgeHint(scene, what.near) : nodeHint(scene.tree, what.place.node);
      if (text) tooltip.show(text, x, y);
      else tooltip.hide();
    });
  }
}

/** How many hints were asked for. */
let hints = 0;
