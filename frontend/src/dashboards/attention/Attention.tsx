import { useMemo } from "preact/hooks";
import { Button } from "../../ui/Button";
import { ATTENTION_EXAMPLE } from "../../ui/examples";
import { Frame } from "../../ui/Frame";
import { useKeys } from "../../ui/keys";
import { Show } from "../../ui/States";
import type { Session } from "../../ui/session";
import { adoptStyles } from "../../ui/styles";
import styles from "./attention.css?inline";
import { AttentionState, VIEWS, type View } from "./attention_state";
import chartStyles from "./charts.css?inline";
import { exportItems } from "./exports";
import { HeadView } from "./HeadView";
import headStyles from "./head_view.css?inline";
import { ImageView } from "./ImageView";
import { LayerMap } from "./LayerMap";
import { OverviewGrid } from "./OverviewGrid";
import { PairView } from "./PairView";
import { Sources } from "./Sources";
import { StepBar, togglePlay } from "./StepBar";
import { summary } from "./summary";
import { Trends } from "./Trends";

const EMPTY = {
  title: "No attention recorded yet",
  text: "Record what the heads of a teacher and a student look at, and this tab compares them:",
  code: ATTENTION_EXAMPLE,
};

const KEYS = [
  ["Space", "play through the steps"],
  ["↑ ↓ ← →", "move between heads, cells, patches"],
  ["Shift", "with a choice: leave the other model as it is"],
  ["Enter", "open the head, choose the query"],
  ["+  −  f", "zoom in, out, show all (in a map)"],
  ["o", "overview"],
  ["v  V", "next, previous view"],
] as const;

const TITLES: Readonly<Record<View, string>> = {
  overview: "Overview",
  layers: "Layer map",
  pair: "Pair",
  head: "Head",
  image: "Image",
  trends: "Trends",
  sources: "Sources",
};

/** Did the student learn to look where the teacher looks? */
export function Attention({ session }: { session: Session }) {
  const state = useMemo(() => {
    for (const css of [styles, chartStyles, headStyles]) adoptStyles(css);
    return new AttentionState(session);
  }, [session]);
  const view = VIEWS.find((name) => name === state.view.value) ?? "overview";
  const turn = (by: number) => {
    state.view.value = VIEWS[(VIEWS.indexOf(view) + by + VIEWS.length) % VIEWS.length] ?? "overview";
  };
  useKeys({
    // On a control, Space is that control's own key.
    " ": () =>
      document.activeElement?.matches("button, select, summary, input") ? false : togglePlay(state),
    o: () => {
      state.view.value = "overview";
    },
    v: () => turn(1),
    V: () => turn(-1),
    Escape: () => {
      state.view.value = "overview";
    },
  });
  return (
    <Frame
      session={session}
      sentence={summary(state)}
      hasPolicy
      keys={KEYS}
      empty={EMPTY}
      exports={exportItems(state, view)}
    >
      {() => (
        <Show resource={state.data.teacher.overview} onRetry={() => state.retry()}>
          {() => (
            <div class="attention">
              <nav class="views" aria-label="Views">
                <div class="segments" role="group" aria-label="View">
                  {VIEWS.map((name) => (
                    <Button
                      key={name}
                      label={TITLES[name]}
                      pressed={name === view}
                      onClick={() => {
                        state.view.value = name;
                      }}
                    >
                      {TITLES[name]}
                    </Button>
                  ))}
                </div>
                <StepBar state={state} />
              </nav>
              <section
                class="view"
                aria-label={TITLES[view]}
                // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
                tabIndex={0}
              >
                <Content state={state} view={view} />
              </section>
            </div>
          )}
        </Show>
      )}
    </Frame>
  );
}

function Content({ state, view }: { state: AttentionState; view: View }) {
  switch (view) {
    case "layers":
      return <LayerMap state={state} />;
    case "pair":
      return <PairView state={state} />;
    case "head":
      return <HeadView state={state} />;
    case "image":
      return <ImageView state={state} />;
    case "trends":
      return <Trends state={state} />;
    case "sources":
      return <Sources state={state} />;
    default:
      return <OverviewGrid state={state} />;
  }
}
