import { useEffect } from "preact/hooks";
import { type DiffTree, NodeType } from "../../graph/diff_tree";
import { Button, CopyButton } from "../../ui/Button";
import { shortNumber } from "../../ui/format";
import { verdictStyle } from "../../ui/verdict_styles";
import type { DiffState } from "./diff_state";

/** For larger models the audit is made when someone asks for it. */
const QUICK_OPERATORS = 20_000;

/** Whether the two results of a pair meet, and the adapter that makes them meet: what the Shape audit says of it. */
export function Adapter({ state, tree, node }: { state: DiffState; tree: DiffTree; node: number }) {
  const pair = tree.pair[node]!;
  const isPaired =
    tree.type[node] === NodeType.CALL && pair >= 0 && tree.teacher[node]! >= 0 && tree.student[node]! >= 0;
  const operators = tree.sides.teacher.operatorCount + (tree.sides.student?.operatorCount ?? 0);
  const isQuick = operators <= QUICK_OPERATORS;
  useEffect(() => {
    if (isPaired && isQuick) state.needAudit();
  }, [state, tree, isPaired, isQuick]);
  if (!isPaired) return null;
  const { status, value, error } = state.audit.state.value;
  const row = value ? value.rows.number("pair").indexOf(pair) : -1;
  return (
    <section>
      <h3>Shapes</h3>
      {status === "idle" && (
        <Button label="Ask the shape audit about this pair" onClick={() => state.needAudit()}>
          Do they meet?
        </Button>
      )}
      {status === "loading" && <p class="soft">Auditing …</p>}
      {error && <p class="soft">{error.message}</p>}
      {value && row < 0 && <p class="soft">Nothing to compare.</p>}
      {value && row >= 0 && <Verdict rows={value.rows} row={row} />}
    </section>
  );
}

function Verdict({ rows, row }: { rows: NonNullable<DiffState["audit"]["value"]>["rows"]; row: number }) {
  const { glyph, word, tone, meaning } = verdictStyle(rows.number("verdict")[row]!);
  const adapter = rows.text("adapter", row);
  const code = rows.text("adapter_code", row);
  const cause = rows.text("cause", row);
  const parameters = rows.number("adapter_parameters")[row]!;
  return (
    <>
      <p>
        <span class={`kind tone-${tone}`}>{glyph}</span> {word}: {meaning}
        {cause && <span class="soft"> ({cause})</span>}
      </p>
      {adapter && (
        <p class="side-head">
          <span class="mono path">{adapter}</span>
          {parameters > 0 && <span class="soft">{shortNumber(parameters)} parameters</span>}
          {code && <CopyButton text={code} label="Copy the adapter as PyTorch code" />}
        </p>
      )}
    </>
  );
}
