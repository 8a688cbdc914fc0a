import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Button } from "./Button";
import { type Chip, Chips } from "./Chips";
import { elided } from "./format";
import type { KeyHelp } from "./Help";
import { Icon } from "./Icon";
import { useKeys } from "./keys";
import { Later } from "./Later";
import { POLICIES } from "./policies";
import { SidePicker } from "./SidePicker";
import { Show } from "./States";
import { type Session, TABS } from "./session";

export interface ExportItem {
  label: string;
  run: () => void;
}

interface FrameProps {
  session: Session;
  /** The answer in one sentence; null while it is computed. */
  sentence: string | null;
  chips?: Chip[];
  onChip?: (id: string) => void;
  exports?: ExportItem[];
  keys: KeyHelp;
  /** Whether the tab aligns structures, so that a policy matters. */
  hasPolicy?: boolean;
  /** Shown when nothing is recorded. */
  empty: { title: string; text: string; code: string };
  /** More controls for the toolbar. */
  controls?: ComponentChildren;
  children: () => ComponentChildren;
}

const loadEmpty = () => import("./Empty").then(({ Empty }) => Empty);
const loadHelp = () => import("./Help").then(({ Help }) => Help);

/** What all tabs share: pickers, swap, policy, export, help; the summary row; the states around the content. */
export function Frame(props: FrameProps) {
  const { session, empty } = props;
  const helpOpen = useSignal(false);
  const setHelp = (open: boolean) => {
    helpOpen.value = open;
  };
  const step = (by: number) => {
    for (const which of ["teacher", "student"] as const) {
      const side = session[which].value;
      if (!side || side.choice.steps.length < 2) continue;
      const last = side.choice.steps.length - 1;
      const index = Math.max(0, Math.min(last, side.index + by));
      session.pick(which, side.choice, index === last ? null : side.choice.steps[index]!.step);
    }
  };
  useKeys({
    "?": () => setHelp(true),
    "[": () => step(-1),
    "]": () => step(1),
    1: () => session.goTo("graph_diff"),
    2: () => session.goTo("shape_audit"),
    3: () => session.goTo("attention"),
  });
  return (
    <main class="frame">
      <Show resource={session.records} onRetry={() => void session.reload()}>
        {(records) =>
          session.choices.value.length === 0 ? (
            <>
              <Later load={loadEmpty} with={{ title: empty.title, code: empty.code, children: empty.text }} />
              <Problems problems={records.problems.map(({ message }) => message)} />
            </>
          ) : (
            <>
              <h1 class="visually-hidden">{TABS[session.tab].title}</h1>
              <header class="toolbar">
                <SidePicker session={session} which="teacher" />
                <Button
                  label="Swap teacher and student"
                  disabled={!session.student.value}
                  onClick={() => session.swap()}
                >
                  <Icon name="swap" />
                </Button>
                <SidePicker session={session} which="student" />
                {props.hasPolicy && session.student.value && <PolicyPicker session={session} />}
                <span class="spring" />
                {props.controls}
                {props.exports?.length ? <ExportMenu items={props.exports} /> : null}
                <Button label="Keys and legend (?)" onClick={() => setHelp(true)}>
                  <Icon name="help" />
                </Button>
              </header>
              <div class="summary">
                <Sentence text={props.sentence} />
                {props.chips && <Chips chips={props.chips} onToggle={props.onChip ?? (() => {})} />}
              </div>
              <Problems
                problems={[session.notice.value, ...records.problems.map(({ message }) => message)].filter(
                  Boolean,
                )}
              />
              <div class="content">{props.children()}</div>
            </>
          )
        }
      </Show>
      {helpOpen.value && <Later load={loadHelp} with={{ keys: props.keys, onClose: () => setHelp(false) }} />}
    </main>
  );
}

function PolicyPicker({ session }: { session: Session }) {
  return (
    <label
      class="policy"
      data-tip="How the blocks of a stack of equal blocks are paired when nothing else tells"
    >
      policy
      <select
        value={session.policy.value}
        onChange={(event) => session.setIntent({ policy: event.currentTarget.value })}
      >
        {[...new Set([...POLICIES, session.policy.value])].map((policy) => (
          <option key={policy}>{policy}</option>
        ))}
      </select>
    </label>
  );
}

/** A native disclosure: reachable by keyboard, and closed by Escape or by leaving it. */
function ExportMenu({ items }: { items: ExportItem[] }) {
  const open = useSignal(false);
  const close = () => {
    open.value = false;
  };
  return (
    <fieldset
      class="menu"
      aria-label="Export"
      onKeyDown={(event) => event.key === "Escape" && close()}
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) close();
      }}
    >
      <button
        type="button"
        class="button"
        aria-label="Export what is shown"
        data-tip="Export what is shown"
        aria-expanded={open.value}
        onClick={() => {
          open.value = !open.value;
        }}
      >
        <Icon name="download" />
      </button>
      {open.value && (
        <ul>
          {items.map((item) => (
            <li key={item.label}>
              <button
                type="button"
                onClick={() => {
                  close();
                  item.run();
                }}
              >
                {item.label}
              </button>
            </li>
          ))}
        </ul>
      )}
    </fieldset>
  );
}

/** Records that could not be read: named, and out of the way. */
function Problems({ problems }: { problems: string[] }) {
  if (!problems.length) return null;
  return (
    <details class="problems">
      <summary>⚠ {problems.length === 1 ? problems[0] : `${problems.length} things need attention`}</summary>
      {problems.length > 1 && (
        <ul>
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
    </details>
  );
}

/** Paths of hundreds of modules are shortened, and whole in the tooltip: what the sentence says stays in sight. */
function Sentence({ text }: { text: string | null }) {
  const shown = text === null ? <span class="soft">Comparing …</span> : elided(text);
  return (
    <p aria-live="polite" title={shown === text ? undefined : (text ?? undefined)}>
      {shown}
    </p>
  );
}
