import { nodeName } from "../../graph/card";
import { type DiffTree, NodeType, type SideName } from "../../graph/diff_tree";
import { CopyButton } from "../../ui/Button";
import { KindBadge } from "../../ui/Kind";
import { kindStyle } from "../../ui/kinds";
import { Later } from "../../ui/Later";
import { adoptStyles } from "../../ui/styles";
import type { Comparison } from "./comparison";
import type { DiffState } from "./diff_state";
import { hookSnippets } from "./hook_snippets";
import css from "./inspector.css?inline";
import { Kernels } from "./Kernels";
import { PinActions, StackPolicy } from "./Pins";
import { attributeLines, type FactLine, flagLines, quantities, tensorLines } from "./pair_facts";
import { parameterLines } from "./parameter_facts";
import { Quantities } from "./Quantities";

adoptStyles(css);

const loadAdapter = () => import("./Adapter").then(({ Adapter }) => Adapter);
const loadMeasuredFacts = () => import("./MeasuredFacts").then(({ MeasuredFacts }) => MeasuredFacts);
const loadDimensions = () => import("./Dimensions").then(({ Dimensions }) => Dimensions);

/** All that is known of the selected pair. */
export function Inspector({ state }: { state: DiffState }) {
  const comparison = state.comparison.value;
  const node = state.selected.value;
  if (!comparison || node < 0) return null;
  const { tree } = comparison;
  const isPair = tree.sides.student !== null;
  const style = kindStyle(tree.kindOf(node));
  const isFold = tree.type[node] === NodeType.FOLD;
  return (
    <aside class="inspector" aria-label="Details">
      <h2>
        <KindBadge kind={tree.kindOf(node)} confidence={tree.confidence[node]!} />
        {nodeName(tree, node, tree.hasSide(node, "teacher") ? "teacher" : "student")}
        {style.name && <span class={`tone-${style.tone} kind-name`}>{style.name}</span>}
      </h2>
      <SideHead tree={tree} node={node} side="teacher" />
      {isPair && <SideHead tree={tree} node={node} side="student" />}
      {isPair && <PinActions state={state} tree={tree} node={node} />}
      {isFold && (
        <p class="soft">{tree.children(node).length} repeated blocks; open it to see them one by one.</p>
      )}
      <StackPolicy state={state} comparison={comparison} node={node} />
      {!isFold && <Quantities list={quantities(tree, node)} isPair={isPair} />}
      {!isFold && state.measured.value && (
        <Later load={loadMeasuredFacts} with={{ view: state.measured.value, tree, node }} />
      )}
      {!isFold && <Lines title="Inputs" lines={tensorLines(tree, node, "inputs")} isPair={isPair} mono />}
      {!isFold && <Lines title="Outputs" lines={tensorLines(tree, node, "outputs")} isPair={isPair} mono />}
      {!isFold && <Later load={loadDimensions} with={{ state, tree, node }} />}
      {!isFold && <Lines title="Parameters" lines={parameterLines(tree, node)} isPair={isPair} mono />}
      {!isFold && <Lines title="Attributes" lines={attributeLines(tree, node)} isPair={isPair} mono />}
      {!isFold && <Lines title="State" lines={flagLines(tree, node)} isPair={isPair} />}
      {isPair && <Later load={loadAdapter} with={{ state, tree, node }} />}
      {isPair && <Evidence state={state} comparison={comparison} node={node} />}
      {tree.type[node] === NodeType.OPERATOR && <Source tree={tree} node={node} />}
      {tree.type[node] === NodeType.OPERATOR && <Kernels key={node} tree={tree} node={node} />}
      {isPair && tree.type[node] === NodeType.CALL && <Hooks tree={tree} node={node} />}
    </aside>
  );
}

function SideHead({ tree, node, side }: { tree: DiffTree; node: number; side: SideName }) {
  const model = tree.side(side);
  const row = tree[side][node]!;
  const letter = side === "teacher" ? "T" : "S";
  if (!model || row < 0) {
    return (
      <p class="side-head soft">
        <span class="letter">{letter}</span> no counterpart
      </p>
    );
  }
  const isOperator = tree.type[node] === NodeType.OPERATOR;
  const call = isOperator ? model.operatorCall[row]! : row;
  const path = model.callPath(call);
  return (
    <p class="side-head">
      {tree.sides.student && <span class="letter">{letter}</span>}
      <span class="mono path">{path || "(the model)"}</span>
      <span class="soft">{isOperator ? `operator ${model.operatorName(row)}` : model.callClass(call)}</span>
      <CopyButton text={path} label={`Copy the ${side}'s path`} />
    </p>
  );
}

function Lines(props: { title: string; lines: FactLine[]; isPair: boolean; mono?: boolean }) {
  const { title, lines, isPair, mono = false } = props;
  if (!lines.length) return null;
  return (
    <section>
      <h3>{title}</h3>
      <table class={`facts lines ${mono ? "mono" : ""}`}>
        <tbody>
          {lines.map((line, index) => (
            <tr key={`${line.name} ${index}`} class={line.differs ? "differs" : ""}>
              <th scope="row">
                {line.differs && (
                  <span class="mark" role="img" aria-label="differs">
                    ≠
                  </span>
                )}
                {line.name}
              </th>
              <td data-tip={line.teacher ?? undefined}>{line.teacher ?? "–"}</td>
              {isPair && <td data-tip={line.student ?? undefined}>{line.student ?? "–"}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Evidence({ state, comparison, node }: { state: DiffState; comparison: Comparison; node: number }) {
  const { tree, alignment } = comparison;
  const row = tree.pair[node]!;
  if (!alignment || row < 0) return null;
  const evidence = alignment.pairs.texts("evidence", row);
  const alternatives = Array.from(alignment.pairs.row("alternatives", row));
  if (!evidence.length && !alternatives.length) return null;
  return (
    <section>
      <h3>
        Why <span class="soft">confidence {tree.confidence[node]!.toFixed(2)}</span>
      </h3>
      <ul class="evidence">
        {evidence.map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
      {alternatives.length > 0 && (
        <p>
          <span class="soft">These would fit as well: </span>
          {alternatives.slice(0, 12).map((call) => (
            <button
              key={call}
              type="button"
              class="link mono"
              onClick={() => state.select(tree.callNode.teacher[call] ?? -1)}
            >
              {tree.sides.teacher.callPath(call)}
            </button>
          ))}
          {alternatives.length > 12 && <span class="soft"> and {alternatives.length - 12} more</span>}
        </p>
      )}
    </section>
  );
}

function Source({ tree, node }: { tree: DiffTree; node: number }) {
  const of = (side: SideName) => {
    const row = tree[side][node]!;
    return row < 0 ? "" : (tree.side(side)?.tables.operators.text("source", row) ?? "");
  };
  const sources = [...new Set([of("teacher"), of("student")])].filter(Boolean);
  if (!sources.length) return null;
  return (
    <section>
      <h3>Source</h3>
      {sources.map((source) => (
        <p key={source} class="side-head">
          <span class="mono path">{source}</span>
          <CopyButton text={source} label="Copy the source line" />
        </p>
      ))}
    </section>
  );
}

function Hooks({ tree, node }: { tree: DiffTree; node: number }) {
  const [t, s] = [tree.teacher[node]!, tree.student[node]!];
  if (t < 0 || s < 0 || !tree.sides.student) return null;
  return (
    <section>
      <h3>Hook this pair</h3>
      <ul class="hooks">
        {hookSnippets(tree.sides.teacher.callPath(t), tree.sides.student.callPath(s)).map(
          ({ library, text }) => (
            <li key={library} data-tip={text}>
              {library} <CopyButton text={text} label={`Copy for ${library}`} />
            </li>
          ),
        )}
      </ul>
    </section>
  );
}
