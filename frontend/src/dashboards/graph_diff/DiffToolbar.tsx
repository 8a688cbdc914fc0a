import { COLOURINGS } from "../../graph/colouring";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import type { DiffState, View } from "./diff_state";
import type { GraphCommands } from "./GraphPane";
import { placeSide } from "./GraphPane";
import { measuredName } from "./measured_colouring";
import { SearchBox } from "./SearchBox";

const VIEWS: readonly [View, string][] = [
  ["outline", "Outline"],
  ["both", "Both"],
  ["graph", "Graph"],
];

/** Search, views, colour and the graph's commands. */
export function DiffToolbar({ state, commands }: { state: DiffState; commands: GraphCommands }) {
  const isPair = state.comparison.value?.tree.sides.student != null;
  const selected = state.selected.value;
  const measured = state.measured.value?.options.value ?? [];
  const isMeasured = measuredName(state.colouring.value) !== null;
  const hasGraph = state.view.value !== "outline";
  const toggleCone = (direction: "upstream" | "downstream" | "between") => {
    state.cone.value = state.cone.value === direction ? null : direction;
  };
  return (
    <div class="diff-toolbar" role="toolbar" aria-label="View">
      <SearchBox state={state} />
      <fieldset class="segments" aria-label="View">
        {VIEWS.map(([view, label]) => (
          <Button
            key={view}
            label={`Show ${view === "both" ? "outline and graph" : `the ${view} alone`}`}
            pressed={state.view.value === view}
            onClick={() => {
              state.view.value = view;
            }}
          >
            {label}
          </Button>
        ))}
      </fieldset>
      {isPair && hasGraph && (
        <Button
          label="Draw both models as one graph instead of side by side"
          pressed={state.arrangementName === "merged"}
          onClick={() => {
            state.arrangement.value = state.arrangementName === "merged" ? "side by side" : "merged";
          }}
        >
          Merged
        </Button>
      )}
      <label class="policy">
        colour
        <select
          value={state.colouring.value}
          onChange={(event) => {
            state.colouring.value = event.currentTarget.value;
          }}
        >
          {COLOURINGS.filter((name) => name !== "shape verdict" || isPair).map((name) => (
            <option key={name}>{name}</option>
          ))}
          {(measured.length > 0 || isMeasured) && (
            <optgroup label="measured at a step">
              {isMeasured && !measured.some(({ value }) => value === state.colouring.value) && (
                <option value={state.colouring.value}>{measuredName(state.colouring.value)}</option>
              )}
              {measured.map(({ value, label }) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </optgroup>
          )}
        </select>
      </label>
      <Legend state={state} />
      <span class="spring" />
      {(state.canUndo.value || state.canRedo.value) && (
        <>
          <Button
            label="Undo the last change of pairs (Ctrl+Z)"
            disabled={!state.canUndo.value}
            onClick={() => state.undo()}
          >
            <Icon name="undo" />
          </Button>
          <Button label="Redo (Ctrl+Shift+Z)" disabled={!state.canRedo.value} onClick={() => state.redo()}>
            <Icon name="redo" />
          </Button>
        </>
      )}
      <Button label="Open everything (e)" onClick={() => state.openAll(Math.max(0, selected))}>
        <Icon name="open" />
      </Button>
      <Button label="Back to the first picture (c)" onClick={() => state.closeAll()}>
        <Icon name="close" />
      </Button>
      <Button
        label="Upstream: all that the selected node depends on (u)"
        pressed={state.cone.value === "upstream"}
        disabled={selected <= 0}
        onClick={() => toggleCone("upstream")}
      >
        <Icon name="upstream" />
      </Button>
      <Button
        label="Downstream: all that depends on the selected node (d)"
        pressed={state.cone.value === "downstream"}
        disabled={selected <= 0}
        onClick={() => toggleCone("downstream")}
      >
        <Icon name="downstream" />
      </Button>
      {state.marked.value > 0 && (
        <Button
          label="Only the ways between the two chosen nodes (p)"
          pressed={state.cone.value === "between"}
          onClick={() => toggleCone("between")}
        >
          <Icon name="between" />
        </Button>
      )}
      {state.view.value === "both" && (
        <Button
          label="Scroll outline and graph together"
          pressed={state.scrolling.value === "together"}
          onClick={() => {
            state.scrolling.value = state.scrolling.value === "together" ? "apart" : "together";
          }}
        >
          <Icon name="link" />
        </Button>
      )}
      {hasGraph && (
        <>
          <Button
            label="Edges as wide as the tensors are large"
            pressed={state.weighEdges.value}
            onClick={() => {
              state.weighEdges.value = !state.weighEdges.value;
            }}
          >
            <Icon name="weigh" />
          </Button>
          <Button
            label="Zoom to the selected node (z)"
            disabled={selected <= 0}
            onClick={() => commands.view?.zoomTo(selected, placeSide(commands.scene, selected))}
          >
            <Icon name="focus" />
          </Button>
          <Button label="Fit the graph into the window (f)" onClick={() => commands.view?.fit()}>
            <Icon name="fit" />
          </Button>
        </>
      )}
    </div>
  );
}

function Legend({ state }: { state: DiffState }) {
  const items = state.painting.value?.legend() ?? [];
  if (!items.length) return null;
  return (
    <ul class="legend" aria-label={`Legend: ${state.colouring.value}`}>
      {items.map(({ label, colour }) => (
        <li key={colour + label}>
          <i style={{ background: colour }} />
          {label}
        </li>
      ))}
    </ul>
  );
}
