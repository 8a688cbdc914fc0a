import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { connectHost, type Host } from "../host/host";
import type { Intent } from "../wire/comparison";
import { isReport } from "../wire/embedded";
import { fetchRecords, type PlanStep, type Records } from "../wire/records";
import {
  attentionChoices,
  type Choice,
  changedBefore,
  defaultPair,
  parseSide,
  type Side,
  sideText,
  structureChoices,
} from "./choice";
import { Resource } from "./resource";
import { storedPlan } from "./stored_plan";
import { installStyles } from "./styles";
import { LONGEST_VALUE, UrlState } from "./url_state";

export const TABS = {
  graph_diff: { plugin: "structure_graph_diff", title: "Graph diff" },
  shape_audit: { plugin: "structure_shape_audit", title: "Shape audit" },
  attention: { plugin: "structure_attention", title: "Attention" },
} as const;

export type TabName = keyof typeof TABS;

/** Written in the address for "no student". */
const NONE = "-";
export const DEFAULT_POLICY = "copy";

/**
 * What every tab has: the records, the two sides, the policy and pins, the place that is selected, and an
 * address that carries it all. Values with the same meaning have the same key in all tabs, so that a place
 * can be looked at from another tab.
 */
export class Session {
  readonly host: Host;
  readonly url: UrlState;
  readonly records = new Resource<Records>();
  readonly choices: ReadonlySignal<Choice[]>;
  readonly teacher: ReadonlySignal<Side | null>;
  readonly student: ReadonlySignal<Side | null>;
  readonly policy: ReadonlySignal<string>;
  readonly intent: ReadonlySignal<Intent>;
  /** The pins or policies are too long for the address, which then does not hold them. */
  readonly isIntentLong: ReadonlySignal<boolean>;
  /** The selected place: "T:<module path>" or "S:<module path>"; "" for none. */
  readonly at: Signal<string>;
  readonly dark: ReadonlySignal<boolean>;
  /** Why an address could not be shown as it is; "" when it could. */
  readonly notice = signal("");

  /** What was written as intended for the two sides. */
  private readonly plan: ReadonlySignal<PlanStep | null>;
  private readonly teacherText: Signal<string>;
  private readonly studentText: Signal<string>;
  // Empty: as the plan in the log directory says.
  private readonly policyText: Signal<string>;
  private readonly policiesText: Signal<string>;
  private readonly pinsText: Signal<string>;

  constructor(readonly tab: TabName) {
    const { plugin, title } = TABS[tab];
    this.host = connectHost(plugin, title);
    this.dark = this.host.dark;
    installStyles(this.dark);
    this.url = new UrlState(this.host.location);
    this.teacherText = this.url.text("t");
    this.studentText = this.url.text("s");
    this.policyText = this.url.text("policy");
    this.policiesText = this.url.text("policies");
    this.pinsText = this.url.text("pins");
    this.at = this.url.text("at");

    this.choices = computed(() => {
      const records = this.records.value;
      if (!records) return [];
      return tab === "attention" ? attentionChoices(records) : structureChoices(records);
    });
    const pair = computed(() => defaultPair(this.choices.value));
    this.teacher = computed(() => this.side(this.teacherText.value, pair.value.teacher));
    this.student = computed(() =>
      this.studentText.value === NONE ? null : this.side(this.studentText.value, pair.value.student),
    );
    this.plan = computed(() =>
      storedPlan(this.records.value?.plans ?? [], this.teacher.value, this.student.value),
    );
    this.policy = computed(() => this.policyText.value || this.plan.value?.policy || DEFAULT_POLICY);
    this.intent = computed(() => ({
      policy: this.policy.value,
      policies: parseObject(this.policiesText.value, this.plan.value?.policies),
      pins: parseObject(this.pinsText.value, this.plan.value?.pins),
    }));
    this.isIntentLong = computed(() =>
      [this.policiesText, this.pinsText].some(({ value }) => value.length > LONGEST_VALUE),
    );
    effect(() => {
      const missing = [this.teacherText.value, this.studentText.value].filter(
        (text) => text && text !== NONE && this.choices.value.length && !this.parse(text),
      );
      this.notice.value = missing.length
        ? `${missing.join(" and ")}: there is no such record in this log directory, so another one is shown.`
        : "";
    });
    this.host.onReload(() => void this.reload());
    effect(() => {
      // Keys that changed the tab go on working in it; a click on TensorBoard's own tabs leaves the focus there.
      if (this.host.visible.value && takeFocus(plugin)) window.focus();
    });
    void this.reload();
  }

  reload(): Promise<void> {
    return this.records.load("Reading the list of records", fetchRecords);
  }

  /** Picks a side; `step` null follows the latest. `choice` null: no student. */
  pick(which: "teacher" | "student", choice: Choice | null, step: number | null = null): void {
    const text = which === "teacher" ? this.teacherText : this.studentText;
    batch(() => {
      const other = which === "student" ? this.teacher.value : null;
      text.value = choice ? sideText(choice, step) : NONE;
      // One record beside itself says nothing: then the teacher is the same model before its last change.
      if (choice && step === null && other?.choice === choice && other.latest) {
        const before = changedBefore(choice);
        if (before !== null) this.teacherText.value = sideText(choice, before);
      }
    });
  }

  swap(): void {
    const { teacher, student } = this;
    if (!teacher.value || !student.value) return;
    const text = (side: Side) => sideText(side.choice, side.latest ? null : side.address.step);
    const [first, second] = [text(teacher.value), text(student.value)];
    batch(() => {
      this.teacherText.value = second;
      this.studentText.value = first;
      // Pins, policies and the selection speak of the sides as they were.
      this.pinsText.value = "";
      this.policiesText.value = "";
      this.at.value = "";
    });
  }

  setIntent(intent: Partial<Intent>): void {
    batch(() => {
      const plan = this.plan.value;
      if (intent.policy !== undefined) {
        this.policyText.value = intent.policy === (plan?.policy || DEFAULT_POLICY) ? "" : intent.policy;
      }
      if (intent.policies) this.policiesText.value = objectText(intent.policies, plan?.policies);
      if (intent.pins) this.pinsText.value = objectText(intent.pins, plan?.pins);
    });
  }

  /** Shows the same sides and place in another tab. */
  goTo(tab: TabName): void {
    // A report holds one tab.
    if (tab === this.tab || isReport()) return;
    const { t, s, policy, policies, pins, at, mstep } = this.url.values();
    const values: Record<string, string> = {};
    // Attention records have tags of their own: the same models are looked up among them.
    const shared =
      tab === "attention" || this.tab === "attention"
        ? { t: this.counterpart(this.teacher.value, tab), s: this.counterpart(this.student.value, tab), at }
        : { t, s, policy, policies, pins, at, mstep };
    for (const [key, value] of Object.entries(shared)) if (value) values[key] = value;
    rememberFocus(TABS[tab].plugin);
    this.host.location.goTo(TABS[tab].plugin, values);
  }

  /** The record of the same run and model that another tab shows; "" when it has none. */
  private counterpart(side: Side | null, tab: TabName): string {
    const records = this.records.value;
    if (!records || !side) return "";
    const candidates = tab === "attention" ? attentionChoices(records) : structureChoices(records);
    const same = candidates.filter(
      ({ run, model }) => run === side.choice.run && model === side.choice.model,
    );
    const best = same.find(({ variant }) => !variant) ?? same[0];
    return best ? sideText(best, null) : "";
  }

  private side(text: string, fallback: Choice | null): Side | null {
    return (text && this.parse(text)) || (fallback && this.parse(sideText(fallback, null)));
  }

  private parse(text: string): Side | null {
    return parseSide(text, this.choices.value);
  }
}

const FOCUS_KEY = "tb_plugin_structure.focus";

function rememberFocus(plugin: string): void {
  try {
    sessionStorage.setItem(FOCUS_KEY, plugin);
  } catch {
    // Storage may be forbidden; then the focus stays where it is.
  }
}

/** Whether the focus was meant for this tab; once. */
function takeFocus(plugin: string): boolean {
  try {
    if (sessionStorage.getItem(FOCUS_KEY) !== plugin) return false;
    sessionStorage.removeItem(FOCUS_KEY);
    return true;
  } catch {
    return false;
  }
}

/** The object in the address; `stored` when the address says nothing. */
function parseObject<T>(text: string, stored: Record<string, T> = {}): Record<string, T> {
  if (!text) return stored;
  try {
    const value: unknown = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, T>) : {};
  } catch {
    return {};
  }
}

function objectText(object: object, stored: object = {}): string {
  const text = JSON.stringify(object);
  return text === JSON.stringify(stored) ? "" : text;
}
