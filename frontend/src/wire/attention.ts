import { AttentionOverviewHeaderFields } from "../gen/tb_plugin_structure/v1/attention_fields";
import type {
  AttentionLayer,
  AttentionOverviewHeader,
  TokenAxis,
} from "../gen/tb_plugin_structure/v1/attention_pb";
import { TableFields } from "../gen/tb_plugin_structure/v1/columns_fields";
import { Columns, half } from "./columns";
import { comparisonParameters, type Intent } from "./comparison";
import { readMessage } from "./message";
import type { Address } from "./records";
import { getBytes, getJson } from "./request";

export type PlaneKind = "maximum" | "mass";

/** Row-major values, `columns` a row. */
export interface Matrix {
  readonly values: Float32Array;
  readonly rows: number;
  readonly columns: number;
}

/** Bytes of one head's overview; byte c stands for `scale · (c / 255)²`. */
export interface StoredPlane {
  readonly bytes: Uint8Array;
  readonly rows: number;
  readonly columns: number;
  readonly scale: number;
  /** A byte for each row, see `records/row_states.py`; undefined when all rows are probabilities. */
  readonly rowStates?: Uint8Array | undefined;
}

/** Statistics and overviews of all heads of a model at one step. */
export class AttentionOverview {
  constructor(
    readonly address: Address,
    readonly header: AttentionOverviewHeader,
    readonly statistics: Columns,
    private readonly planes: Readonly<Partial<Record<PlaneKind, Uint8Array>>>,
    private readonly rowStates?: Uint8Array,
  ) {}

  has(kind: PlaneKind): boolean {
    return this.planes[kind] !== undefined;
  }

  /** The same with another plane. */
  with(kind: PlaneKind, bytes: Uint8Array): AttentionOverview {
    const planes = { ...this.planes, [kind]: bytes };
    return new AttentionOverview(this.address, this.header, this.statistics, planes, this.rowStates);
  }

  get layers(): readonly AttentionLayer[] {
    return this.header.layers;
  }

  queryAxis(layer: number): TokenAxis | undefined {
    return this.header.axes[this.layers[layer]?.queryAxis ?? -1];
  }

  keyAxis(layer: number): TokenAxis | undefined {
    return this.header.axes[this.layers[layer]?.keyAxis ?? -1];
  }

  /** Null when the layer was not captured, or this kind of plane was not read. */
  plane(layer: number, head: number, kind: PlaneKind): StoredPlane | null {
    const record = this.layers[layer];
    if (record === undefined || record.notCaptured !== "" || head >= record.heads) return null;
    const rows = record.overviewRows;
    const columns = record.overviewColumns;
    const begin = Number(record.overviewOffset) + head * rows * columns;
    const bytes = this.planes[kind]?.subarray(begin, begin + rows * columns);
    if (bytes === undefined || bytes.length < rows * columns) return null;
    const scale = this.statistic(`${kind}_scale`, layer, head);
    return { bytes, rows, columns, scale, rowStates: this.statesOf(layer, head) };
  }

  private statesOf(layer: number, head: number): Uint8Array | undefined {
    if (this.rowStates === undefined) return undefined;
    const rowsOf = (record: AttentionLayer) => record.heads * record.overviewRows;
    const before = this.layers.slice(0, layer).reduce((sum, record) => sum + rowsOf(record), 0);
    const rows = this.layers[layer]?.overviewRows ?? 0;
    const states = this.rowStates.subarray(before + head * rows, before + (head + 1) * rows);
    return states.length === rows && states.some((state) => state !== 0) ? states : undefined;
  }

  /** A column of the statistics table; NaN when the layer was not captured, or the record is older than the column. */
  statistic(column: string, layer: number, head: number): number {
    const record = this.layers[layer];
    if (record === undefined || record.notCaptured !== "" || head >= record.heads) return Number.NaN;
    if (!this.statistics.has(column)) return Number.NaN;
    return this.statistics.number(column)[record.firstHeadRow + head] ?? Number.NaN;
  }
}

/** An overview with the plane of maxima; {@link withMass} adds the other one, which few ask for. */
export async function fetchOverview(address: Address, signal?: AbortSignal): Promise<AttentionOverview> {
  const [header, statistics, maximum] = await Promise.all(
    (["header", "statistics", "maximum"] as const).map((part) => fetchPart(address, part, signal)),
  );
  const read = readMessage(AttentionOverviewHeaderFields, header!);
  const hasStates = read.parts.some(({ name }) => name === "row_states");
  return new AttentionOverview(
    address,
    read,
    new Columns(readMessage(TableFields, statistics!)),
    { maximum: maximum! },
    hasStates ? await fetchPart(address, "row_states", signal) : undefined,
  );
}

/** The overview with both planes. */
export async function withMass(overview: AttentionOverview): Promise<AttentionOverview> {
  return overview.with("mass", await fetchPart(overview.address, "mass"));
}

function fetchPart(address: Address, part: string, signal?: AbortSignal): Promise<Uint8Array> {
  return getBytes("api/attention/overview", { ...address, part }, signal);
}

/** Only the statistics of a step, for trends: a row per head. */
export async function fetchStatistics(address: Address, signal?: AbortSignal): Promise<Columns> {
  return new Columns(readMessage(TableFields, await fetchPart(address, "statistics", signal)));
}

/** Heads of a layer that are stored in full resolution, in one form. */
export interface StoredHeads {
  heads: number[];
  form: "matrix" | "query and key" | "tiles" | "rows" | "unknown";
  /** How exact the values are, for people. */
  guarantee: string;
  /** The query positions that were kept; absent when all were. */
  rows?: number[];
}

/** For each layer of an overview, the heads that are stored in full resolution. */
export async function fetchStoredHeads(address: Address, signal?: AbortSignal): Promise<StoredHeads[][]> {
  const { stored } = await getJson<{ stored: StoredHeads[][] }>(
    "api/attention/stored",
    { ...address },
    signal,
  );
  return stored;
}

/** What is left out of a head: keys, and all but the largest probabilities of each query that hold `share` of the rest. */
export interface HeadFilter {
  readonly hidden: readonly number[];
  readonly share: number;
}

/** A part of a head in full resolution, in positions, with the largest value of each of rowCells × columnCells blocks. */
export async function fetchWindow(
  address: Address,
  head: { layer: number; head: number },
  part: { x: number; y: number; width: number; height: number },
  rowCells: number,
  columnCells: number,
  signal?: AbortSignal,
  filter?: HeadFilter,
): Promise<Matrix> {
  const bytes = await getBytes(
    "api/attention/window",
    {
      ...address,
      ...head,
      row: part.y,
      rows: part.height,
      column: part.x,
      columns: part.width,
      row_cells: rowCells,
      column_cells: columnCells,
      hide: filter?.hidden.length ? filter.hidden.join() : undefined,
      mass: filter !== undefined && filter.share < 1 ? 100 * filter.share : undefined,
    },
    signal,
  );
  const values = new Float32Array(bytes.slice().buffer);
  return { values, rows: Math.min(rowCells, part.height), columns: Math.min(columnCells, part.width) };
}

/** One head in full: query_length × key_length probabilities, row-major. */
export async function fetchHead(
  address: Address,
  layer: number,
  head: number,
  signal?: AbortSignal,
): Promise<Float32Array> {
  const bytes = await getBytes("api/attention/detail", { ...address, layer, head }, signal);
  const aligned = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  // Through a table: a long sequence has millions of values.
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => half(bits));
  const table = halves;
  return Float32Array.from(
    new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >> 1),
    (bits) => table[bits]!,
  );
}

/** Attention rollout up to a layer: a square matrix, over positions or over the blocks of the overview. */
export async function fetchRollout(address: Address, layer: number): Promise<Matrix> {
  const bytes = await getBytes("api/attention/rollout", { ...address, layer });
  const values = new Float32Array(bytes.slice().buffer);
  const side = Math.round(Math.sqrt(values.length));
  return { values, rows: side, columns: side };
}

let halves: Float32Array | undefined;

export interface LayerPair {
  teacher: number;
  student: number;
  /** Teacher head, student head, distance. */
  heads: [number, number, number][];
  unmatched_teacher: number[];
  unmatched_student: number[];
}

/** The answer of `api/attention/comparison`. */
export interface AttentionComparison {
  measure: string;
  resolution: string;
  /** [teacher layer][student layer]; null: not comparable. */
  layer_distances: (number | null)[][];
  pairs: LayerPair[];
  layer_pairs: [number, number][];
  pairing: "alignment" | "least distance";
  notes: string[];
}

/** Teacher head, student head, Jensen–Shannon divergence in bits, and what it was computed from. */
export type HeadDivergence = [number, number, number | null, string];

/** The divergence of pairs of heads (teacher, student) of two layers. */
export async function fetchDivergences(
  teacher: Address,
  student: Address,
  layers: readonly [number, number],
  heads: readonly (readonly [number, number])[],
  signal?: AbortSignal,
): Promise<HeadDivergence[]> {
  const prefixed = (prefix: string, address: Address) =>
    Object.fromEntries(Object.entries(address).map(([key, value]) => [prefix + key, value]));
  const { heads: found } = await getJson<{ heads: HeadDivergence[] }>(
    "api/attention/divergence",
    {
      ...prefixed("t_", teacher),
      ...prefixed("s_", student),
      t_layer: layers[0],
      s_layer: layers[1],
      heads: heads.map((pair) => pair.join("-")).join(","),
    },
    signal,
  );
  return found;
}

/** `intent` pairs the layers as the alignment of the models pairs the modules around them. */
export function fetchComparison(
  teacher: Address,
  student: Address,
  intent: Intent,
  signal?: AbortSignal,
): Promise<AttentionComparison> {
  const parameters = comparisonParameters(teacher, student, intent);
  return getJson<AttentionComparison>("api/attention/comparison", parameters, signal);
}
