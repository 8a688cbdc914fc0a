import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type DiffTree, NodeType, type SideName } from "../../graph/diff_tree";
import { exactNumber } from "../../ui/format";
import type { MeasuredQuantity, MeasuredValues } from "../../wire/measured";
import type { MeasuredView } from "./measured_view";

interface Line {
  quantity: MeasuredQuantity;
  teacher: Value | null;
  student: Value | null;
}

interface Value {
  value: number;
  step: number;
}

/** All that was measured of the selected pair, at the chosen step. */
export function MeasuredFacts({ view, tree, node }: { view: MeasuredView; tree: DiffTree; node: number }) {
  const lines = useSignal<Line[]>([]);
  const step = view.state.step.value;
  void view.state.quantities.value;
  useEffect(() => {
    let isCurrent = true;
    const of = async (side: SideName) =>
      tree.side(side) && tree.hasSide(node, side) ? view.state.everything(side) : [];
    void Promise.all([of("teacher"), of("student")])
      .then(([teacher, student]) => {
        if (isCurrent) lines.value = linesOf(tree, node, teacher, student);
      })
      // The bar below the tools says so.
      .catch(() => {});
    return () => {
      isCurrent = false;
    };
  }, [view, tree, node, step, view.state.quantities.value, lines]);
  if (tree.type[node] !== NodeType.CALL || !lines.value.length) return null;
  const isPair = tree.sides.student !== null;
  const cell = (quantity: MeasuredQuantity, found: Value | null) => (
    <td data-tip={found ? `${exact(quantity, found.value)} at step ${exactNumber(found.step)}` : undefined}>
      {found ? view.state.scaleOf(quantity).text(found.value) : "–"}
    </td>
  );
  return (
    <section>
      <h3>
        Measured <span class="soft">{step === null ? "latest" : `near step ${exactNumber(step)}`}</span>
      </h3>
      <table class="facts numbers">
        <tbody>
          {lines.value.map(({ quantity, teacher, student }) => (
            <tr key={quantity.name}>
              <th scope="row" data-tip={quantity.meaning || undefined}>
                {quantity.label}
              </th>
              {cell(quantity, teacher)}
              {isPair && cell(quantity, student)}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function exact(quantity: MeasuredQuantity, value: number): string {
  return quantity.scale === "category"
    ? (quantity.categories[value] ?? "?")
    : `${value} ${quantity.unit}`.trim();
}

function linesOf(
  tree: DiffTree,
  node: number,
  teacher: [MeasuredQuantity, MeasuredValues][],
  student: [MeasuredQuantity, MeasuredValues][],
): Line[] {
  const lines = new Map<string, Line>();
  for (const [side, found] of [
    ["teacher", teacher],
    ["student", student],
  ] as const) {
    const model = tree.side(side);
    const row = tree[side][node]!;
    if (!model || row < 0 || tree.type[node] !== NodeType.CALL) continue;
    const path = model.callPath(row);
    for (const [quantity, { step, values }] of found) {
      const value = values.get(path);
      if (value === undefined) continue;
      const line = lines.get(quantity.name) ?? { quantity, teacher: null, student: null };
      line[side] = { value, step };
      lines.set(quantity.name, line);
    }
  }
  return [...lines.values()];
}
