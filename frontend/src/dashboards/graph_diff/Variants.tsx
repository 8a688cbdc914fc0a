import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { PairKind } from "../../gen/tb_plugin_structure/v1/alignment_pb";
import type { DiffTree } from "../../graph/diff_tree";
import { Button } from "../../ui/Button";
import { KindBadge } from "../../ui/Kind";
import { Resource } from "../../ui/resource";
import { type Difference, fetchVariants, type VariantComparison } from "../../wire/variants";
import type { DiffState } from "./diff_state";
import { type VariantGroup, variantGroups } from "./variant_groups";

const KINDS = { first: PairKind.DELETED, second: PairKind.INSERTED, changed: PairKind.RECONFIGURED };
const FEW = 40;

/** Which calls and operators two passes of one model (train and eval, two ranks, two branches) do not have in common. */
export function Variants({ state, tree }: { state: DiffState; tree: DiffTree }) {
  const resource = useMemo(() => new Resource<VariantComparison>(), []);
  const isAll = useSignal(false);
  useEffect(() => {
    const { teacher, student } = state.session;
    const [t, s] = [teacher.peek()?.address, student.peek()?.address];
    if (t && s) void resource.load("Comparing the passes", (signal) => fetchVariants(t, s, signal));
    return () => resource.clear();
  }, [state, tree, resource]);
  const { value, error, status } = resource.state.value;
  if (status === "loading" && !value) return <p class="soft">Comparing the two passes …</p>;
  if (error) return <p class="soft">{error.message}</p>;
  if (!value?.same_model) return null;
  const groups = variantGroups(value.differences);
  const shown = isAll.value ? groups : groups.slice(0, FEW);
  const where = { first: `only in ${value.first}`, second: `only in ${value.second}`, changed: "changed" };
  return (
    <section aria-label="Two passes of one model">
      <h3>Two passes of one model</h3>
      <p>{value.summary}</p>
      <ul class="edits">
        {shown.map((group) => (
          <li key={JSON.stringify([group.kind, group.place, group.text])}>
            <KindBadge kind={KINDS[group.kind]} />
            <Button
              label="Show this place"
              className="link"
              onClick={() => state.select(nodeOf(tree, group.members[0]!))}
            >
              {where[group.kind]}: {sentence(group)}
            </Button>
          </li>
        ))}
      </ul>
      {shown.length < groups.length && (
        <Button
          label="Show all differences"
          className="link"
          onClick={() => {
            isAll.value = true;
          }}
        >
          {groups.length - shown.length} more
        </Button>
      )}
      {value.left_out > 0 && <p class="soft">{value.left_out} further differences are not listed.</p>}
    </section>
  );
}

function sentence({ place, text, members }: VariantGroup): string {
  const times = members.length > 1 ? `, ${members.length} times` : "";
  return members[0]!.subject === "operator"
    ? `${text} in ${place || "the model"}${times}`
    : `${place || "the model"}, ${text}${times}`;
}

/** Where a difference is shown; -1 where the tree has no such place. */
function nodeOf(tree: DiffTree, { subject, rows: [first, second] }: Difference): number {
  const nodes = subject === "operator" ? tree.operatorNode : tree.callNode;
  return (first >= 0 ? nodes.teacher[first] : nodes.student[second]) ?? -1;
}
