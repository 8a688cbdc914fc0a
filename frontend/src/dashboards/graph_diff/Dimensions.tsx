import { useEffect } from "preact/hooks";
import { nodeName } from "../../graph/card";
import { type DiffTree, NodeType, type SideName } from "../../graph/diff_tree";
import { type DimensionOrigin, type DimensionStep, dimensionOrigin } from "../../graph/dimension_origin";
import { Button } from "../../ui/Button";
import type { DiffState } from "./diff_state";

/** Longer ways are cut in the list; the picture shows all of it. */
const MOST_LINES = 30;
const LETTER = { teacher: "T", student: "S" } as const;

/** Where each dimension of the result comes from: choose one, and its way is listed here and shown in the picture. */
export function Dimensions({ state, tree, node }: { state: DiffState; tree: DiffTree; node: number }) {
  const sides = (["teacher", "student"] as const).filter((side) => shapeOf(tree, node, side)?.length);
  const chosen = state.dimension.value;
  const origin = state.origin.value;
  const key = chosen && `${node} ${chosen.side} ${chosen.position}`;
  useEffect(() => {
    state.origin.value = chosen && findOrigin(tree, node, chosen);
    return () => {
      state.origin.value = null;
    };
  }, [tree, key]);
  if (!sides.length) return null;
  return (
    <section>
      <h3>Where a dimension comes from</h3>
      {sides.map((side) => (
        <p key={side} class="dimensions">
          {tree.sides.student && <span class="letter">{LETTER[side]}</span>}
          {Array.from(shapeOf(tree, node, side)!, (size, position) => {
            const isChosen = chosen?.side === side && chosen.position === position;
            return (
              <Button
                key={position}
                label={`${size}: where dimension ${position} of the ${side}'s result comes from`}
                pressed={isChosen}
                onClick={() => {
                  state.dimension.value = isChosen ? null : { side, position };
                }}
              >
                {size}
              </Button>
            );
          })}
        </p>
      ))}
      {origin && chosen && <Way state={state} tree={tree} side={chosen.side} origin={origin} />}
    </section>
  );
}

/** The tensor that stands for a node's result on one side; -1 without one. */
function resultOf(tree: DiffTree, node: number, side: SideName): number {
  const model = tree.side(side);
  const row = tree[side][node]!;
  if (!model || row < 0 || tree.type[node] === NodeType.FOLD) return -1;
  return model.mainOutput(row, tree.type[node] === NodeType.OPERATOR);
}

function shapeOf(tree: DiffTree, node: number, side: SideName): ArrayLike<number> | null {
  const output = resultOf(tree, node, side);
  return output < 0 ? null : tree.side(side)!.shape(output);
}

function findOrigin(
  tree: DiffTree,
  node: number,
  { side, position }: { side: SideName; position: number },
): DimensionOrigin | null {
  const output = resultOf(tree, node, side);
  const model = tree.side(side);
  return model && output >= 0 && position < model.shape(output).length
    ? dimensionOrigin(model, output, position)
    : null;
}

interface WayProps {
  state: DiffState;
  tree: DiffTree;
  side: SideName;
  origin: DimensionOrigin;
}

function Way({ state, tree, side, origin: { steps, ends } }: WayProps) {
  const changes = steps.filter(({ what }) => what);
  const guesses = steps.filter(({ isCertain }) => !isCertain).length;
  return (
    <>
      <ul class="evidence" aria-label="Where it begins">
        {ends.slice(0, MOST_LINES).map((end, index) => (
          <li key={index}>
            {end.text ? `${end.size}: ${end.text}` : `${end.size}: begins in `}
            {end.text ? (end.isFixed ? ", so it is the same for every input" : "") : null}{" "}
            {end.operator >= 0 && <Place state={state} tree={tree} side={side} operator={end.operator} />}
          </li>
        ))}
        {ends.length > MOST_LINES && <li>and {ends.length - MOST_LINES} more</li>}
      </ul>
      <p class="soft">
        {steps.length === 1 ? "Through one operator" : `Through ${steps.length} operators`}
        {changes.length ? ", last to first:" : ", none of which changes it."}
      </p>
      <ul class="evidence" aria-label="What changes it">
        {merged(changes)
          .slice(0, MOST_LINES)
          .map((step) => (
            <li key={`${step.operator} ${step.what}`}>
              <Place state={state} tree={tree} side={side} operator={step.operator} /> {step.what}
              {!step.isCertain && <span class="soft"> (by equal size)</span>}
            </li>
          ))}
        {merged(changes).length > MOST_LINES && <li>and {merged(changes).length - MOST_LINES} more</li>}
      </ul>
      {guesses > 0 && (
        <p class="soft">
          {guesses === 1 ? "One operator is" : `${guesses} operators are`} followed by equal sizes alone.
        </p>
      )}
    </>
  );
}

/** What happens to both halves of a dimension that was split is said once. */
function merged(steps: DimensionStep[]): DimensionStep[] {
  return steps.filter(
    (step, index) =>
      index === 0 || step.operator !== steps[index - 1]!.operator || step.what !== steps[index - 1]!.what,
  );
}

function Place(props: { state: DiffState; tree: DiffTree; side: SideName; operator: number }) {
  const { state, tree, side, operator } = props;
  const node = tree.operatorNode[side][operator]!;
  if (node < 0) return null;
  const model = tree.side(side)!;
  const path = model.callPath(model.operatorCall[operator]!);
  return (
    <Button
      label="Show this operator, and keep the dimension"
      className="link mono"
      onClick={() => state.look(node)}
    >
      {path ? `${path} ${nodeName(tree, node, side)}` : nodeName(tree, node, side)}
    </Button>
  );
}
