import type { Edit } from "../../gen/tb_plugin_structure/v1/alignment_pb";
import { Button } from "../../ui/Button";
import { elided } from "../../ui/format";
import { KindBadge } from "../../ui/Kind";
import { Later } from "../../ui/Later";
import type { Comparison } from "./comparison";
import type { DiffState } from "./diff_state";
import type { Quantity } from "./pair_facts";
import { Quantities } from "./Quantities";

const loadCompared = () => import("./Compared").then(({ Compared }) => Compared);
const loadVariants = () => import("./Variants").then(({ Variants }) => Variants);

/** What is shown in the place of details while nothing is selected: both models in numbers, and what changed. */
export function Overview({ state, comparison }: { state: DiffState; comparison: Comparison }) {
  return (
    <aside class="inspector" aria-label="Details">
      <h2>Nothing selected</h2>
      <p class="soft">
        Select a node in the outline or in the graph to see its attributes, shapes, cost and why it was
        paired. Double-click or press Enter to open it.
      </p>
      {comparison.alignment && <Totals comparison={comparison} />}
      {comparison.alignment && hasLoss(state) && (
        <Later load={loadCompared} with={{ state, tree: comparison.tree }} />
      )}
      {mayBeVariants(comparison) && <Later load={loadVariants} with={{ state, tree: comparison.tree }} />}
      <EditScript state={state} comparison={comparison} />
    </aside>
  );
}

/** Whether a step was recorded with what ran outside of the models: the loss, above all. */
function hasLoss({ session }: DiffState): boolean {
  const structures = session.records.value?.structures ?? [];
  return structures.some(({ kind, run }) => kind === "outside" && run === session.student.value?.choice.run);
}

/** Whether both sides can be passes of one model: then what each of them ran is listed by name. */
function mayBeVariants({ tree }: Comparison): boolean {
  const [t, s] = [tree.sides.teacher.tables.header, tree.sides.student?.tables.header];
  return s !== undefined && t.model === s.model && t.modelClass === s.modelClass;
}

/** The search for a path in which "#" stands for any number. */
function patternOf(path: string): string {
  return `/^${path.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("#", "\\d+")} /`;
}

/** The two models in numbers. */
function Totals({ comparison }: { comparison: Comparison }) {
  const { teacherTotals: t, studentTotals: s } = comparison.alignment!.message;
  if (!t || !s) return null;
  const line = (
    name: string,
    unit: Quantity["unit"],
    teacher: bigint | number,
    student: bigint | number,
  ) => ({
    name,
    unit,
    teacher: Number(teacher),
    student: Number(student),
  });
  const list: Quantity[] = [
    line("parameters", "count", t.parameters, s.parameters),
    line("MACs", "count", t.macs, s.macs),
    line("activation", "bytes", t.activationBytes, s.activationBytes),
    line("time", "ns", t.durationNs, s.durationNs),
    line("modules", "count", t.modules, s.modules),
    line("operators", "count", t.operators, s.operators),
  ];
  // Not every pass is timed.
  return <Quantities list={list.filter(({ teacher, student }) => teacher || student)} isPair />;
}

/**
 * What turned the teacher into the student, coarsest first. Each line leads to its place; one that speaks of several
 * places searches for them all.
 */
function EditScript({ state, comparison }: { state: DiffState; comparison: Comparison }) {
  const edits = comparison.alignment?.message.edits ?? [];
  if (!edits.length) return null;
  const go = ({ text, teacherPath, studentPath }: Edit) => {
    const found = [studentPath && `S:${studentPath}`, teacherPath && `T:${teacherPath}`]
      .filter(Boolean)
      .map((key) => comparison.keys.find(key))
      .find((node) => node >= 0);
    // A line that speaks of several places begins with what their paths have in common; its own is the first of them.
    const common = /^\S*#[^\s:]*/.exec(text)?.[0];
    if (common) {
      state.query.value = patternOf(common);
      void state.step(1);
    } else if (found !== undefined) state.select(found);
  };
  return (
    <section>
      <h3>What changed</h3>
      <ul class="edits">
        {edits.slice(0, 60).map((edit) => {
          const shown = elided(edit.text);
          const label = shown === edit.text ? "Show this place" : `Show this place: ${edit.text}`;
          return (
            <li key={edit.text}>
              <KindBadge kind={edit.kind} />
              <Button label={label} className="link" onClick={() => go(edit)}>
                {shown}
              </Button>
            </li>
          );
        })}
      </ul>
      {edits.length > 60 && <p class="soft">and {edits.length - 60} more</p>}
    </section>
  );
}
