import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Verdict } from "../../gen/tb_plugin_structure/v1/audit_pb";
import type { Arrangement } from "../../graph/card";
import { COLOURINGS, type NodePainting, Painting } from "../../graph/colouring";
import type { DiffTree, SideName } from "../../graph/diff_tree";
import type { DimensionOrigin } from "../../graph/dimension_origin";
import { nodeKey } from "../../graph/node_key";
import { firstOpening } from "../../graph/opening";
import { finishSliced } from "../../graph/sliced";
import { announce } from "../../ui/announce";
import { KINDS } from "../../ui/kinds";
import { Resource } from "../../ui/resource";
import type { Session } from "../../ui/session";
import { palette } from "../../ui/tokens";
import type { DecodedAudit } from "../../wire/audit";
import { fetchAlignment, type Intent } from "../../wire/comparison";
import type { Address } from "../../wire/records";
import { fetchStructure, type StructureTables } from "../../wire/structure";
import { type Comparison, comparisonOf } from "./comparison";
import type { Followed } from "./faint_nodes";
import { IntentHistory } from "./intent_history";
import type { Matches } from "./matches";
import { measuredName } from "./measured_colouring";
import type { MeasuredView } from "./measured_view";
import { openedBy, openText } from "./open_address";

/** What stays in place on the screen when something opens; `isPointed` when the pointer is on it. */
export interface Anchor {
  node: number;
  side: SideName;
  isPointed: boolean;
}

export type View = "both" | "outline" | "graph";

/** Nothing is searched for. */
const NO_MATCHES: Matches = { nodes: [], set: new Set(), error: "" };

/** A fold of no more blocks than this opens with its module. */
const FEW_BLOCKS = 8;

/** All that the Graph diff shows, shared by outline, graph and inspector. */
export class DiffState {
  readonly comparison = new Resource<Comparison>();
  readonly open = signal<ReadonlySet<number>>(new Set());
  readonly selected = signal(-1);
  readonly marked = signal(-1);
  readonly hovered = signal(-1);
  /** The node that shall be in view: the selected one, or one that was only to be looked at. */
  readonly target = signal(-1);
  /** The node that was just opened or closed, and on which side: it stays where it is on the screen. */
  anchor: Anchor | null = null;
  /** In a narrow window two drawings would be too small to read; decided anew for each pair of models. */
  readonly isNarrow = signal(false);
  readonly view: Signal<string>;
  readonly arrangement: Signal<string>;
  readonly colouring: Signal<string>;
  /** Whether outline and graph are scrolled "together" or "apart". */
  readonly scrolling: Signal<string>;
  readonly kinds: Signal<string>;
  readonly query: Signal<string>;
  readonly cone = signal<Followed>(null);
  readonly weighEdges = signal(false);
  /** The dimension of the selected node's result whose origin is shown; null for none. */
  readonly dimension = signal<{ side: SideName; position: number } | null>(null);
  /** Its way, which the view of dimensions finds. */
  readonly origin = signal<DimensionOrigin | null>(null);
  /** Verdicts and adapters of the pairs; read when something shows them. */
  readonly audit = new Resource<DecodedAudit>();
  readonly verdicts: ReadonlySignal<ReadonlyMap<number, Verdict>>;
  /** What was measured of the models, once something was found and its code is loaded. */
  readonly measured = signal<MeasuredView | null>(null);
  /** The step of the measurements that are shown; "" for the latest. */
  readonly measuredStep: Signal<string>;
  /** What went wrong while the rest still works; "" when nothing did. */
  readonly trouble = signal("");
  /** Whether the dialog is shown that says how to write the plan into the run. */
  readonly planOpen = signal(false);
  readonly canUndo = signal(false);
  readonly canRedo = signal(false);

  readonly filter: ReadonlySignal<Set<number>>;
  /** 1 for each node that recedes; null when none does. */
  readonly faint = signal<Uint8Array | null>(null);
  readonly matches = signal<Matches>(NO_MATCHES);
  readonly painting: ReadonlySignal<NodePainting | null>;
  /** All that changes the picture as a whole. */
  readonly picture: ReadonlySignal<object>;

  private readonly openText: Signal<string>;
  private readonly history = new IntentHistory();
  private readonly structures = new Map<string, Promise<StructureTables>>();
  private lastTree: DiffTree | null = null;
  /** How often something else was to recede. */
  private receded = 0;
  private auditedTree: DiffTree | null = null;
  private stopSearch = new AbortController();
  private searching: Promise<void> = Promise.resolve();

  constructor(readonly session: Session) {
    const { url } = session;
    this.view = url.text("view", "both");
    this.arrangement = url.text("arrange");
    this.colouring = url.text("colour", "kind");
    this.scrolling = url.text("scroll", "together");
    this.measuredStep = url.text("mstep");
    this.kinds = url.text("kinds");
    this.query = url.text("q");
    this.openText = url.text("open");

    this.filter = computed(() => {
      const wanted = this.kinds.value.split(",");
      return new Set<number>(KINDS.filter(({ id }) => wanted.includes(id)).map(({ kind }) => kind));
    });
    effect(() => void this.recede());
    effect(() => {
      const tree = this.comparison.value?.tree ?? null;
      const text = this.query.value;
      this.stopSearch.abort();
      this.stopSearch = new AbortController();
      this.searching = this.search(tree, text, this.stopSearch.signal);
    });
    this.verdicts = computed(() => {
      const rows = this.audit.value?.rows;
      if (!rows) return new Map();
      const [pair, verdict] = [rows.number("pair"), rows.number("verdict")];
      return new Map(Array.from(pair, (row, index) => [row, verdict[index] as Verdict]));
    });
    this.painting = computed(() => {
      const { value } = this.comparison;
      const colouring = COLOURINGS.find((name) => name === this.colouring.value) ?? "kind";
      if (!value) return null;
      const colours = palette(session.dark.value);
      const measured = this.measured.value?.painting(
        this.colouring.value,
        value.tree,
        colours,
        this.arrangementName === "merged",
      );
      return measured ?? new Painting(value.tree, colours, colouring, this.verdicts.value);
    });
    effect(() => {
      if (this.colouring.value === "shape verdict" && this.comparison.value) this.needAudit();
    });

    this.picture = computed(() => [this.painting.value, this.faint.value, this.matches.value]);

    const request = computed(() => {
      const { teacher, student, intent } = session;
      return JSON.stringify([
        teacher.value?.address,
        student.value?.address,
        student.value ? intent.value : null,
      ]);
    });
    effect(() => {
      const [teacher, student, intent] = JSON.parse(request.value) as [Address?, Address?, Intent?];
      if (teacher) void this.load(teacher, student ?? null, intent ?? null);
      else if (student) void this.load(student, null, null);
    });
    effect(() => {
      const { value } = this.comparison;
      if (value && value.tree !== this.lastTree) {
        this.adopt(value);
      }
    });
    effect(() => {
      if (this.comparison.value && session.records.value) void this.needMeasured();
    });
  }

  get arrangementName(): Arrangement {
    const chosen = this.arrangement.value;
    return chosen === "merged" || (chosen === "" && this.isNarrow.value) ? "merged" : "side by side";
  }

  reload(): void {
    const { teacher, student, intent } = this.session;
    if (teacher.value) void this.load(teacher.value.address, student.value?.address ?? null, intent.value);
  }

  /** Selects a node and opens what is around it. */
  select(node: number, reveal = true): void {
    const tree = this.comparison.value?.tree;
    if (!tree) return;
    batch(() => {
      this.selected.value = node;
      this.target.value = node;
      this.marked.value = -1;
      this.dimension.value = null;
      if (node >= 0 && reveal) this.openAround(node);
      this.session.at.value = node >= 0 ? nodeKey(tree, node) : "";
    });
  }

  /** Brings a node into view; what is selected stays selected. */
  look(node: number): void {
    batch(() => {
      this.openAround(node);
      this.target.value = node;
      this.hovered.value = node;
    });
  }

  /** Marks a second node, to pair it with the selected one or to see the way between them. */
  mark(node: number): void {
    if (node === this.selected.value || this.selected.value < 0) this.select(node, false);
    else this.marked.value = this.marked.value === node ? -1 : node;
  }

  toggle(node: number, side: SideName = "teacher", isPointed = false): void {
    const tree = this.comparison.value?.tree;
    if (node <= 0 || !tree?.isExpandable(node)) return;
    const next = new Set(this.open.value);
    const opening = !next.delete(node);
    if (opening) {
      next.add(node);
      // A module that holds nothing but its blocks shows them at once.
      const [only, ...others] = tree.children(node);
      if (only !== undefined && !others.length && tree.children(only).length <= FEW_BLOCKS) next.add(only);
    }
    this.setOpen(next, { node, side, isPointed });
    announce(opening ? "opened" : "closed");
  }

  setOpen(open: Set<number>, anchor: Anchor | null = null): void {
    this.anchor = anchor;
    open.add(0);
    this.open.value = open;
    const tree = this.comparison.state.peek().value?.tree;
    this.openText.value = tree ? openText(tree, open) : "";
  }

  openAround(node: number): void {
    const tree = this.comparison.value?.tree;
    if (!tree) return;
    const closed = [...tree.ancestors(node)].filter((ancestor) => !this.open.value.has(ancestor));
    if (closed.length) this.setOpen(new Set([...this.open.value, ...closed]));
  }

  /** Opens everything below a node, or the whole model, down to what is useful to see. */
  openAll(node = 0): void {
    const tree = this.comparison.value?.tree;
    if (!tree) return;
    const next = new Set(this.open.value);
    for (let at = node; at < tree.end[node]!; at++) if (tree.isExpandable(at)) next.add(at);
    this.setOpen(next);
  }

  closeAll(): void {
    const tree = this.comparison.value?.tree;
    if (tree) this.setOpen(firstOpening(tree));
  }

  toggleKind(id: string): void {
    const kinds = new Set(this.kinds.value.split(",").filter(Boolean));
    if (!kinds.delete(id)) kinds.add(id);
    this.kinds.value = [...kinds].join(",");
  }

  /** Goes to the next (or previous) result of the search. */
  async step(by: 1 | -1): Promise<void> {
    await this.searching;
    const { nodes } = this.matches.value;
    if (!nodes.length) return;
    const at = this.selected.value;
    const next = by > 0 ? nodes.find((node) => node > at) : nodes.findLast((node) => node < at);
    this.select(next ?? (by > 0 ? nodes[0]! : nodes.at(-1)!));
  }

  private async search(tree: DiffTree | null, text: string, signal: AbortSignal): Promise<void> {
    try {
      if (!tree || !text.trim()) {
        this.matches.value = NO_MATCHES;
        return;
      }
      const { matchesOf } = await import("./matches");
      if (!signal.aborted) this.matches.value = await finishSliced(matchesOf(tree, text), signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  changeIntent(change: Partial<Intent>): void {
    this.trouble.value = "";
    this.history.push(this.session.intent.value);
    this.applyIntent({ ...this.session.intent.value, ...change });
  }

  undo(): void {
    const intent = this.history.undo(this.session.intent.value);
    if (intent) this.applyIntent(intent);
  }

  redo(): void {
    const intent = this.history.redo(this.session.intent.value);
    if (intent) this.applyIntent(intent);
  }

  private applyIntent(intent: Intent): void {
    this.session.setIntent(intent);
    this.canUndo.value = this.history.canUndo;
    this.canRedo.value = this.history.canRedo;
  }

  private async load(teacher: Address, student: Address | null, intent: Intent | null): Promise<void> {
    await this.comparison.load(student ? "Comparing the two models" : "Reading the model", async (signal) => {
      const [t, s, alignment] = await Promise.all([
        this.structure(teacher),
        student ? this.structure(student) : null,
        student && intent ? fetchAlignment(teacher, student, intent, signal) : null,
      ]);
      return finishSliced(comparisonOf(t, s, alignment), signal);
    });
  }

  /** Reads the audit of the pairs, once for each comparison. */
  needAudit(): void {
    const { value } = this.comparison.state.peek();
    const { teacher, student, intent } = this.session;
    if (!value?.alignment || !student.peek() || this.auditedTree === value.tree) return;
    this.auditedTree = value.tree;
    // What was said of other pairs is not true of these.
    this.audit.clear();
    const [t, s, i] = [teacher.peek()!.address, student.peek()!.address, intent.peek()];
    void this.audit.load("Auditing the shapes", async (signal) => {
      const { fetchAudit } = await import("../../wire/audit");
      return fetchAudit(t, s, i, signal);
    });
  }

  /** Loads what shows measurements, when there are some of these models; it comes after the picture. */
  private async needMeasured(): Promise<void> {
    const { records, teacher, student } = this.session;
    const isOf = [teacher.peek(), student.peek()].map((side) => `${side?.choice.run}\0${side?.choice.model}`);
    const isMeasured = records.state
      .peek()
      .value?.measurements.some(({ run, model }) => isOf.includes(`${run}\0${model}`));
    if (this.measured.peek() || !(isMeasured || measuredName(this.colouring.peek()))) return;
    try {
      const { MeasuredView } = await import("./measured_view");
      this.measured.value ??= new MeasuredView(this);
    } catch (error) {
      this.trouble.value = `What was measured cannot be shown: ${(error as Error).message}`;
    }
  }

  /** A structure never changes under its hash, so each is fetched once. */
  private structure(address: Address): Promise<StructureTables> {
    const key = JSON.stringify(address);
    let structure = this.structures.get(key);
    if (!structure) {
      structure = fetchStructure(address);
      structure.catch(() => this.structures.delete(key));
      if (this.structures.size > 8) this.structures.clear();
      this.structures.set(key, structure);
    }
    return structure;
  }

  /** Carries what was open and selected over to a new tree: by name, for numbers mean nothing there. */
  private adopt({ tree, keys }: Comparison): void {
    const before = this.lastTree;
    this.lastTree = tree;
    if (this.auditedTree !== tree) this.audit.clear();
    batch(() => {
      const open = before
        ? new Set(
            [...this.open.peek()].map((node) => keys.find(nodeKey(before, node))).filter((node) => node >= 0),
          )
        : openedBy(this.openText.peek(), tree, keys);
      if (before && open.size < 2) for (const node of firstOpening(tree)) open.add(node);
      open.add(0);
      this.anchor = null;
      if (!before) this.isNarrow.value = false;
      this.open.value = open;
      this.marked.value = -1;
      this.cone.value = null;
      this.dimension.value = null;
      const at = this.session.at.peek();
      this.selected.value = at ? keys.find(at) : -1;
      this.target.value = this.selected.value;
      if (this.selected.value > 0) this.openAround(this.selected.value);
    });
  }

  /** Finds what recedes; how is loaded when something does for the first time. */
  private async recede(): Promise<void> {
    const { value } = this.comparison;
    const side = this.dimension.value?.side;
    const way = this.origin.value && side ? { side, origin: this.origin.value } : null;
    const cone = { selected: this.selected.value, marked: this.marked.value, followed: this.cone.value };
    const kinds = this.filter.value;
    const own = ++this.receded;
    if (!value || (!way && !cone.followed && !kinds.size)) {
      this.faint.value = null;
      return;
    }
    const { outside } = await import("./faint_nodes");
    if (own === this.receded) this.faint.value = outside(value, way, cone, kinds);
  }
}
