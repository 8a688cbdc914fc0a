import { type DiffTree, NodeType } from "../../graph/diff_tree";
import { Button } from "../../ui/Button";
import { isReport } from "../../wire/embedded";
import { parseBlocks } from "./chosen_blocks";
import type { Comparison } from "./comparison";
import type { DiffState } from "./diff_state";
import { pairOptions, pinOf } from "./pins";

/** Pair, unpair, undo: what the user decides about the selected node. */
export function PinActions({ state, tree, node }: { state: DiffState; tree: DiffTree; node: number }) {
  if (tree.type[node] !== NodeType.CALL || isReport()) return null;
  const pins = state.session.intent.value.pins;
  const options = pairOptions(tree, node, state.marked.value);
  const pinned = pinOf(tree, node, pins);
  const setPin = (student: string, teacher: string | null) =>
    state.changeIntent({ pins: { ...pins, [student]: teacher } });
  const remove = (student: string) => {
    const { [student]: _, ...rest } = pins;
    state.changeIntent({ pins: rest });
  };
  const student = tree.student[node]! >= 0 ? tree.sides.student!.callPath(tree.student[node]!) : null;
  return (
    <div class="pins">
      {options.map(({ teacher, student: path }) => (
        <Button key={`${teacher} ${path}`} label="Pair these two (m)" onClick={() => setPin(path, teacher)}>
          Pair <span class="mono">{teacher}</span> ↔ <span class="mono">{path}</span>
        </Button>
      ))}
      {options.length === 0 && state.marked.value < 0 && (
        <p class="soft">
          Draw a line from the grip in the graph, or Ctrl-click a second node, to pair the two.
        </p>
      )}
      {pinned !== undefined ? (
        <Button label="Leave it to the aligner again" onClick={() => remove(pinned)}>
          Remove pin
        </Button>
      ) : (
        student !== null &&
        tree.teacher[node]! >= 0 &&
        node > 0 && (
          <Button label="The student's part has no counterpart (x)" onClick={() => setPin(student, null)}>
            Unpair
          </Button>
        )
      )}
    </div>
  );
}

/** For the blocks of a stack: how they were paired, and the policies to choose from. */
export function StackPolicy({
  state,
  comparison,
  node,
}: {
  state: DiffState;
  comparison: Comparison;
  node: number;
}) {
  const { tree, alignment } = comparison;
  if (!alignment) return null;
  const pair = tree.type[node] === NodeType.FOLD ? tree.pair[node + 1]! : tree.pair[node]!;
  const index = pair < 0 ? -1 : alignment.pairs.number("stack")[pair]!;
  const stack = alignment.message.stacks[index];
  if (!stack) return null;
  const choices = [...new Set([stack.policy, ...stack.choices])].filter(Boolean);
  const { policies } = state.session.intent.value;
  const longer = stack.studentBlocks > stack.teacherBlocks ? "student" : "teacher";
  const choose = (policy: string | number[]) =>
    state.changeIntent({ policies: { ...policies, [stack.studentPath]: policy } });
  const sizes = [stack.teacherBlocks, stack.studentBlocks];
  const chooseBlocks = (text: string) => {
    try {
      choose(parseBlocks(text, Math.min(...sizes), Math.max(...sizes)));
    } catch (error) {
      state.trouble.value = (error as Error).message;
    }
  };
  const blocks = stack.indices.map((block) => (block < 0 ? "–" : block)).join(", ");
  const isOpen = sizes[0] !== sizes[1] && !isReport();
  return (
    <section>
      <h3>
        Stack of {stack.teacherBlocks} ↔ {stack.studentBlocks} blocks
      </h3>
      <p>
        <label>
          paired by{" "}
          <select
            value={stack.policy}
            disabled={isReport()}
            onChange={(event) => choose(event.currentTarget.value)}
          >
            {choices.map((policy) => (
              <option key={policy}>{policy}</option>
            ))}
          </select>
        </label>
      </p>
      {isOpen ? (
        <label class="blocks">
          {longer} blocks{" "}
          <input
            key={blocks}
            type="text"
            class="mono"
            defaultValue={blocks}
            spellcheck={false}
            data-tip={`For each block of the ${longer === "teacher" ? "student" : "teacher"}, in order; – for none`}
            onChange={(event) => chooseBlocks(event.currentTarget.value)}
          />
        </label>
      ) : (
        <p class="soft">
          {longer} blocks: {blocks}
        </p>
      )}
      {stack.interchangeable && <p class="soft">Structure alone cannot tell these blocks apart.</p>}
    </section>
  );
}
