import {
  batch,
  computed,
  effect,
  type ReadonlySignal,
  type Signal,
  signal,
  untracked,
} from "@preact/signals";
import { parseView } from "../../heatmap/matrix_window";
import type { Box } from "../../heatmap/rasterize";
import type { ScaleKind } from "../../heatmap/value_scale";
import { SCALE_KINDS } from "../../heatmap/value_scale";
import type { Side } from "../../ui/choice";
import { Resource } from "../../ui/resource";
import type { Session } from "../../ui/session";
import {
  type AttentionComparison,
  type AttentionOverview,
  fetchComparison,
  type LayerPair,
  type PlaneKind,
} from "../../wire/attention";
import type { Intent } from "../../wire/comparison";
import type { Address } from "../../wire/records";
import { closestHead, closestPair, firstLayer, lastLayer, layerAtPlace } from "./default_heads";
import { type HeadChoice, headText, parseHead } from "./head_choice";
import type { HeadMatrix } from "./head_matrix";
import { HeadReader } from "./head_reader";
import { type History, MOST_STEPS, readHistory, thin } from "./history";
import { OverviewCache } from "./overview_cache";
import { ReadAhead } from "./read_ahead";
import { SideData } from "./side_data";

export type SideName = "teacher" | "student";

export const SIDES: readonly SideName[] = ["teacher", "student"];

export const VIEWS = ["overview", "layers", "pair", "head", "image", "trends", "sources"] as const;
export type View = (typeof VIEWS)[number];

/** What the tab shows. All of it is in the address, but for what follows from the address. */
export class AttentionState {
  readonly data: Record<SideName, SideData> = { teacher: new SideData(), student: new SideData() };
  readonly comparison = new Resource<AttentionComparison>();
  /** All shared steps; read when a view asks for it. */
  readonly history = new Resource<History>();
  readonly view: Signal<string>;
  readonly scale: ReadonlySignal<ScaleKind>;
  readonly plane: ReadonlySignal<PlaneKind>;
  /** Statistic shown as colour; "" for the maps themselves. */
  readonly statistic: Signal<string>;
  /** "rollout" shows what reaches a layer from the input instead of one head; "" the head. */
  readonly shows: Signal<string>;
  readonly hideSpecial: Signal<string>;
  /** "1": the head view shows attention from word to word. */
  readonly wholeWords: Signal<string>;
  /** Share of each row's mass that is drawn, its largest values first; 1 draws all. */
  readonly topMass: ReadonlySignal<number>;
  readonly topMassText: Signal<string>;
  /** The part of the heads in view, in positions; null for all. */
  readonly zoom: ReadonlySignal<Box | null>;
  readonly chosen: Record<SideName, ReadonlySignal<HeadChoice | null>>;
  readonly pair: ReadonlySignal<[number, number] | null>;
  /** Position of the chosen query on the teacher's axis. */
  readonly query: ReadonlySignal<number>;
  /** Step to subtract; null for none. */
  readonly baseStep: ReadonlySignal<number | null>;
  /** Steps that every side shown has, ascending. */
  readonly steps: ReadonlySignal<number[]>;
  readonly playing = signal(false);
  /** Side of the overview's thumbnails in pixels of the screen, once they were drawn. */
  thumbnailSide = 0;
  /** Counts the times someone asked to try again. */
  private readonly attempt = signal(0);
  private readonly scaleText: Signal<string>;
  private readonly planeText: Signal<string>;
  private readonly headTexts: Record<SideName, Signal<string>>;
  private readonly pairText: Signal<string>;
  private readonly queryText: Signal<string>;
  private readonly zoomText: Signal<string>;
  private readonly baseText: Signal<string>;
  private readonly cache = new OverviewCache();
  private readonly heads = new HeadReader();
  private readonly ahead: Record<SideName, ReadAhead> = {
    teacher: new ReadAhead(this.cache),
    student: new ReadAhead(this.cache),
  };
  private historyKey = "";
  /** The side of a head that was chosen before it was known which one it is paired with. */
  private unfollowed: SideName | null = null;

  constructor(readonly session: Session) {
    const { url } = session;
    this.view = url.text("view", "overview");
    this.scaleText = url.text("scale", "sqrt");
    this.planeText = url.text("plane", "maximum");
    this.statistic = url.text("colour");
    this.shows = url.text("shows");
    this.hideSpecial = url.text("hide");
    this.wholeWords = url.text("words");
    this.topMassText = url.text("mass", "100");
    this.topMass = computed(() => {
      const share = Number(this.topMassText.value) / 100;
      return share > 0 && share < 1 ? share : 1;
    });
    this.zoomText = url.text("zoom");
    this.zoom = computed(() => parseView(this.zoomText.value));
    this.headTexts = { teacher: url.text("th"), student: url.text("sh") };
    this.pairText = url.text("layers");
    this.queryText = url.text("q", "0");
    this.baseText = url.text("base");
    this.scale = computed(() => SCALE_KINDS.find((kind) => kind === this.scaleText.value) ?? "sqrt");
    this.plane = computed(() => (this.planeText.value === "mass" ? "mass" : "maximum"));
    this.chosen = {
      teacher: computed(() => this.choice("teacher")),
      student: computed(() => this.choice("student")),
    };
    this.pair = computed(() => this.layerPair());
    this.query = computed(() => Math.max(0, Math.floor(Number(this.queryText.value) || 0)));
    this.baseStep = computed(() => {
      const step = Number(this.baseText.value);
      return this.baseText.value !== "" && this.steps.value.includes(step) ? step : null;
    });
    this.steps = computed(() => {
      const teacher = session.teacher.value;
      const student = session.student.value;
      const steps = (side: Side) => side.choice.steps.map(({ step }) => step);
      if (teacher === null) return [];
      if (student === null) return steps(teacher);
      const other = new Set(steps(student));
      return steps(teacher).filter((step) => other.has(step));
    });
    for (const side of SIDES) this.loadSide(side);
    this.loadComparison();
  }

  side(name: SideName): Side | null {
    return this.session[name].value;
  }

  overview(name: SideName): AttentionOverview | undefined {
    return this.data[name].overview.value;
  }

  /** Reads everything again that the sides need. */
  retry(): void {
    this.attempt.value++;
    void this.session.reload();
  }

  setScale(kind: ScaleKind): void {
    this.scaleText.value = kind;
  }

  setPlane(kind: PlaneKind): void {
    this.planeText.value = kind;
  }

  /** Shows a part of the heads; null shows all. Positions are rounded, the address stays short. */
  setZoom(view: Box | null): void {
    const numbers = view === null ? [] : [view.x, view.y, view.width, view.height];
    this.zoomText.value = numbers.map((number) => String(Math.round(10 * number) / 10)).join(",");
  }

  setQuery(position: number): void {
    this.queryText.value = String(position);
  }

  setBase(step: number | null): void {
    this.baseText.value = step === null ? "" : String(step);
  }

  setPair(teacher: number, student: number): void {
    this.pairText.value = `${teacher},${student}`;
  }

  /** The comparison of a teacher layer with a student layer. */
  compared(teacher: number, student: number): LayerPair | undefined {
    return this.comparison.value?.pairs.find((pair) => pair.teacher === teacher && pair.student === student);
  }

  /** Chooses a head; its matched head on the other side follows unless `alone`. */
  choose(side: SideName, choice: HeadChoice, alone = false): void {
    batch(() => {
      this.headTexts[side].value = headText(choice);
      const other = side === "teacher" ? "student" : "teacher";
      const match = alone ? null : this.matchOf(side, choice);
      this.unfollowed = !alone && !this.comparison.value ? side : null;
      if (match !== null) this.headTexts[other].value = headText(match);
      const teacher = this.chosen.teacher.value;
      const student = this.chosen.student.value;
      if (teacher !== null && student !== null) this.setPair(teacher.layer, student.layer);
      const path = this.overview(side)?.layers[choice.layer]?.modulePath ?? "";
      this.session.at.value = `${side === "teacher" ? "T" : "S"}:${path}`;
    });
  }

  /** The comparison has come: what was chosen meanwhile takes its matched head along. */
  private follow(): void {
    const side = this.unfollowed;
    const choice = side === null ? null : this.chosen[side].value;
    if (side !== null && choice !== null) this.choose(side, choice);
  }

  /** The head that the comparison pairs with a head; null when it is unmatched. */
  matchOf(side: SideName, choice: HeadChoice): HeadChoice | null {
    const comparison = this.comparison.value;
    const isTeacher = side === "teacher";
    const candidates = (comparison?.layer_pairs ?? []).filter(
      ([t, s]) => (isTeacher ? t : s) === choice.layer,
    );
    for (const [teacher, student] of candidates) {
      const found = this.compared(teacher, student)?.heads.find(
        ([t, s]) => (isTeacher ? t : s) === choice.head,
      );
      if (found !== undefined) {
        return isTeacher ? { layer: student, head: found[1] } : { layer: teacher, head: found[0] };
      }
    }
    return null;
  }

  /** Shows a step on both sides; the last one follows new data. */
  showStep(step: number): void {
    batch(() => {
      for (const name of SIDES) {
        const side = this.side(name);
        if (side === null || !side.choice.steps.some((record) => record.step === step)) continue;
        const isLast = side.choice.steps.at(-1)?.step === step;
        this.session.pick(name, side.choice, isLast ? null : step);
      }
    });
  }

  /** Moves along the steps both sides have; false at the end. */
  moveStep(by: number): boolean {
    const steps = this.steps.value;
    const current = this.side("teacher")?.address.step ?? 0;
    const index = steps.findIndex((step) => step >= current);
    const next = steps[(index < 0 ? steps.length - 1 : index) + by];
    if (next === undefined) return false;
    this.showStep(next);
    return true;
  }

  /** A head in full resolution where it was stored, else its overview; null when there is none. */
  headMatrix(name: SideName, choice: HeadChoice): Promise<HeadMatrix | null> {
    const overview = this.overview(name);
    return overview === undefined ? Promise.resolve(null) : this.heads.head(overview, choice);
  }

  /** An overview with both planes. */
  overviewWithMass(address: Address): Promise<AttentionOverview> {
    return this.cache.get(address, "mass");
  }

  /** Reads the history of the sides shown, unless it is there or on its way. */
  loadHistory(again = false): void {
    const steps = thin(this.steps.peek(), MOST_STEPS);
    const addresses = (name: SideName): Address[] => {
      const choice = this.session[name].peek()?.choice;
      if (choice === undefined) return [];
      const records = new Map(choice.steps.map((record) => [record.step, record]));
      return steps.flatMap((step) => {
        const hash = records.get(step)?.hash;
        return hash === undefined ? [] : [{ run: choice.run, tag: choice.tag, step, hash }];
      });
    };
    const [teachers, students] = [addresses("teacher"), addresses("student")];
    const intent = this.session.intent.peek();
    const key = JSON.stringify([teachers, students, intent]);
    if (steps.length < 2 || (key === this.historyKey && !again)) return;
    this.historyKey = key;
    void this.history.load("Reading the statistics of all steps", (abort) =>
      readHistory(teachers, students, intent, abort),
    );
  }

  private choice(side: SideName): HeadChoice | null {
    const overview = this.overview(side);
    if (overview === undefined) return null;
    const parsed = parseHead(this.headTexts[side].value);
    if (parsed !== null && parsed.head < (overview.layers[parsed.layer]?.heads ?? 0)) return parsed;
    if (side === "student") {
      const teacher = this.chosen.teacher.value;
      const match = teacher === null ? null : this.matchOf("teacher", teacher);
      if (match !== null) return match;
    }
    const place = layerAtPlace(overview, side, this.session.at.value);
    if (place !== null) return { layer: place, head: 0 };
    // Without a choice: the head of the teacher that the student is closest to, else one of the last layer.
    const paired = side === "teacher" ? closestPair(this.comparison.value) : undefined;
    const closest = paired === undefined ? null : closestHead(this.compared(...paired));
    if (closest !== null) return closest;
    const layer = side === "teacher" ? lastLayer(overview) : firstLayer(overview);
    return layer < 0 ? null : { layer, head: 0 };
  }

  private layerPair(): [number, number] | null {
    const match = /^(\d+),(\d+)$/.exec(this.pairText.value);
    const teacher = this.overview("teacher");
    const student = this.overview("student");
    if (teacher === undefined || student === undefined) return null;
    if (match !== null && teacher.layers[Number(match[1])] && student.layers[Number(match[2])]) {
      return [Number(match[1]), Number(match[2])];
    }
    return closestPair(this.comparison.value) ?? null;
  }

  private loadSide(name: SideName): void {
    const data = this.data[name];
    const address = computed(() => JSON.stringify(this.side(name)?.address ?? null));
    effect(() => {
      void this.attempt.value;
      const wanted = JSON.parse(address.value) as Address | null;
      const plane = this.plane.value;
      if (wanted === null) {
        data.overview.clear();
        data.storedHeads.clear();
        return;
      }
      void data.overview.load(`Reading the ${name}'s attention`, () => this.cache.get(wanted, plane));
      // What is not drawn first must not keep the server from what is.
      void data.storedHeads.load("Asking what is stored", async () => {
        await this.cache.get(wanted).catch(() => {});
        return this.heads.storedHeads(wanted);
      });
    });
    effect(() => {
      const side = this.session[name].peek();
      if (data.overview.state.value.status !== "ready" || side === null) return;
      this.ahead[name].around(side, this.steps.peek(), this.plane.peek(), () => this.thumbnailSide);
    });
    const base = computed(() => {
      const step = this.baseStep.value;
      const side = this.side(name);
      const record =
        step === null ? undefined : side?.choice.steps.find((candidate) => candidate.step === step);
      if (side === null || record === undefined) return "null";
      return JSON.stringify({
        run: side.choice.run,
        tag: side.choice.tag,
        step: record.step,
        hash: record.hash,
      });
    });
    effect(() => {
      const wanted = JSON.parse(base.value) as Address | null;
      if (wanted === null) data.base.clear();
      else {
        const plane = this.plane.value;
        void data.base.load("Reading the step to compare with", () => this.cache.get(wanted, plane));
      }
    });
    effect(() => {
      const choice = this.chosen[name].value;
      const shows = this.view.value === "head" ? this.shows.value : "";
      const overview = this.overview(name);
      if (overview === undefined || choice === null) data.matrix.clear();
      else if (shows === "rollout") {
        void data.matrix.load("Reading the rollout", () => this.heads.rollout(overview, choice.layer));
      } else void data.matrix.load("Reading the head", () => this.heads.head(overview, choice));
    });
  }

  private loadComparison(): void {
    const wanted = computed(() => {
      const teacher = this.side("teacher");
      const student = this.side("student");
      return teacher === null || student === null
        ? ""
        : JSON.stringify([teacher.address, student.address, this.session.intent.value]);
    });
    effect(() => {
      void this.attempt.value;
      if (wanted.value === "") {
        this.comparison.clear();
        return;
      }
      const [teacher, student, intent] = JSON.parse(wanted.value) as [Address, Address, Intent];
      void this.comparison.load("Comparing heads", async (abort) => {
        // Comparing takes the server longest; the maps are drawn before.
        await Promise.allSettled([this.cache.get(teacher), this.cache.get(student)]);
        abort.throwIfAborted();
        return fetchComparison(teacher, student, intent, abort);
      });
    });
    effect(() => {
      if (this.comparison.value) untracked(() => this.follow());
    });
  }
}
