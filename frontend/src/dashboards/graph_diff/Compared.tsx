import { useEffect, useMemo } from "preact/hooks";
import type { DiffTree, SideName } from "../../graph/diff_tree";
import { Button } from "../../ui/Button";
import { shapeText } from "../../ui/format";
import { Resource } from "../../ui/resource";
import { type ComparedFeature, type ComparedFeatures, fetchCompared } from "../../wire/compared";
import type { DiffState } from "./diff_state";

/** The pairs of features that the loss of the recorded step compared, whatever was meant. */
export function Compared({ state, tree }: { state: DiffState; tree: DiffTree }) {
  const resource = useMemo(() => new Resource<{ pairs: ComparedFeatures[] }>(), []);
  useEffect(() => {
    const { teacher, student } = state.session;
    const [t, s] = [teacher.peek()?.address, student.peek()?.address];
    if (t && s) void resource.load("Reading the loss", (signal) => fetchCompared(t, s, signal));
    return () => resource.clear();
  }, [state, tree, resource]);
  const pairs = resource.state.value.value?.pairs ?? [];
  if (!pairs.length) return null;
  return (
    <section aria-label="Compared in the loss">
      <h3>Compared in the loss</h3>
      <ul class="edits compared">
        {pairs.map((pair, index) => (
          <li key={`${index} ${pair.operator}`}>
            <span class="mono" data-tip={pair.source || undefined}>
              {pair.operator}
            </span>
            <Features state={state} tree={tree} side="teacher" features={pair.teacher.features} />
            <Features state={state} tree={tree} side="student" features={pair.student.features} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Features(props: { state: DiffState; tree: DiffTree; side: SideName; features: ComparedFeature[] }) {
  const { state, tree, side, features } = props;
  return (
    <span>
      <span class="letter">{side === "teacher" ? "T" : "S"}</span>{" "}
      {features.map((feature) => (
        <Button
          key={JSON.stringify(feature)}
          label={`Show this feature of the ${side}`}
          className="link mono"
          onClick={() => state.select(nodeOf(tree, side, feature))}
        >
          {nameOf(feature)} {shapeText(feature.shape)}
        </Button>
      ))}
    </span>
  );
}

/** The module where its whole result is meant, else the operator in it. */
function nameOf({ path, operator, rows }: ComparedFeature): string {
  if (path && (rows[0] >= 0 || !operator)) return path;
  return operator ? `${operator} in ${path || "the model"}` : path || "the model";
}

function nodeOf(tree: DiffTree, side: SideName, { path, rows: [call, operator] }: ComparedFeature): number {
  const ofCall = call >= 0 && path ? tree.callNode[side][call] : undefined;
  return ofCall ?? tree.operatorNode[side][operator] ?? -1;
}
