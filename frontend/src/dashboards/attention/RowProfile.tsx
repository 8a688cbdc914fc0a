import { tooltip } from "../../ui/tooltip";
import { type AttentionState, SIDES } from "./attention_state";
import { largest, matrixRow, positionsOf, rowStateWords } from "./head_matrix";
import { useExactRow } from "./head_parts";
import { NOTHING, queryCell, type ShownHead } from "./shown_head";
import { shortened } from "./special_tokens";
import { useWidth } from "./use_width";

const HEIGHT = 120;
const LEFT = 40;
const BOTTOM = 22;
/** Rows of the table beside the picture. */
const TOP = 12;

/** Where one query looks, in both models: bars for the teacher, a line for the student, and the largest as a table. */
export function RowProfile({ state, heads }: { state: AttentionState; heads: readonly ShownHead[] }) {
  const { element, width } = useWidth<HTMLDivElement>();
  const query = state.query.value;
  const [teacher, student] = SIDES.map((name) => heads.find((head) => head.name === name));
  const exact = {
    teacher: useExactRow(teacher?.head, query, teacher?.filter ?? NOTHING),
    student: useExactRow(student?.head, query, student?.filter ?? NOTHING),
  };
  const rows = heads.map((head): ProfileRow => {
    const values = exact[head.name] ?? matrixRow(head.matrix, queryCell(query, head));
    return { head, values, isExact: head.head.isFull || exact[head.name] !== null };
  });
  const top = largest(rows.map(({ values }) => largest(values))) || 1;
  const [first] = rows;
  if (first === undefined) return null;
  const { queries } = first.head.head;
  return (
    <section class="row-profile" aria-label="Where the chosen query looks">
      <h2>
        Query {query}
        {` “${shortened(first.head.queryLabels[Math.min(query, queries - 1)] ?? "", 60)}”`}{" "}
        <span class="soft">
          {first.isExact ? "" : "(the block of queries that holds it) "}
          looks at
        </span>
        <label class="query-number">
          query{" "}
          <input
            type="number"
            min={0}
            max={queries - 1}
            value={query}
            onInput={(event) =>
              state.setQuery(Math.max(0, Math.min(queries - 1, Number(event.currentTarget.value) || 0)))
            }
          />
        </label>
      </h2>
      <div class="profile-columns">
        <div ref={element} class="profile-chart">
          {rows.map(({ head, values }) => (
            <Bars key={head.name} {...{ head, query, values, top, width, height: HEIGHT }} />
          ))}
        </div>
        <LargestKeys rows={rows} query={query} />
      </div>
    </section>
  );
}

interface ProfileRow {
  readonly head: ShownHead;
  readonly values: Float32Array;
  /** Whether the values are those of the query alone, not of a block. */
  readonly isExact: boolean;
}

interface BarsProps {
  head: ShownHead;
  query: number;
  values: Float32Array;
  top: number;
  width: number;
  height: number;
}

function Bars({ head, query, values, top: most, width, height }: BarsProps) {
  const plotWidth = Math.max(1, width - LEFT - 4);
  const plotHeight = height - BOTTOM - 8;
  const bins = Math.min(values.length, Math.floor(plotWidth));
  const barWidth = plotWidth / Math.max(1, bins);
  // More keys than pixels: a bar is the largest of its keys.
  const heights = Array.from({ length: bins }, (_, bin) => {
    const [from, to] = positionsOf(bin, bins, values.length);
    return largest(values.subarray(from, to + 1));
  });
  const path = heights
    .map((value, bin) => {
      const top = 8 + plotHeight * (1 - value / most);
      const x = LEFT + bin * barWidth;
      const gap = barWidth > 3 ? 0.5 : 0;
      return `M${(x + gap).toFixed(1)} ${8 + plotHeight}V${top.toFixed(1)}H${(x + barWidth - gap).toFixed(1)}V${8 + plotHeight}Z`;
    })
    .join("");
  const said = rowStateWords(head.head, Math.min(query, head.head.queries - 1));
  const labelEvery = Math.max(1, Math.ceil(34 / barWidth));
  const onPointerMove = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const bin = Math.floor((event.clientX - box.left - LEFT) / barWidth);
    if (bin < 0 || bin >= bins) {
      tooltip.hide();
      return;
    }
    const [from] = positionsOf(bin, bins, values.length);
    tooltip.show(
      `key “${shortened(keyLabel(head, from, values.length), 400)}”\n${head.name}: ${(heights[bin] ?? 0).toFixed(5)}`,
      event.clientX,
      event.clientY,
    );
  };
  return (
    <svg
      width={width}
      height={height}
      role="img"
      aria-label={`Probabilities of the ${head.name}; the table beside lists the largest`}
      onPointerMove={onPointerMove}
      onPointerLeave={() => tooltip.hide()}
    >
      <path d={path} class={`bars ${head.name}`} />
      <path d={`M${LEFT} 8V${8 + plotHeight}H${LEFT + plotWidth}`} class="axis" />
      {said !== "" && (
        <text x={LEFT + 12} y={8 + plotHeight / 2 + 4} class="side-name">
          {said}
        </text>
      )}
      <text x={LEFT - 6} y={14} class="tick end">
        {most.toFixed(2)}
      </text>
      <text x={LEFT - 6} y={8 + plotHeight} class="tick end">
        0
      </text>
      <text x={4} y={8 + plotHeight / 2 + 4} class="side-name">
        {head.name === "teacher" ? "T" : "S"}
      </text>
      {heights.map((_, bin) =>
        bin % labelEvery === 0 ? (
          <text key={bin} x={LEFT + (bin + 0.5) * barWidth} y={height - 8} class="tick middle">
            {keyLabel(head, positionsOf(bin, bins, values.length)[0], values.length).slice(0, 6)}
          </text>
        ) : null,
      )}
    </svg>
  );
}

/** The label of a value's key, or of the first of the keys it stands for. */
function keyLabel(head: ShownHead, value: number, values: number): string {
  return head.keyLabels[positionsOf(value, values, head.head.keys)[0]] ?? "";
}

function LargestKeys({ rows, query }: { rows: readonly ProfileRow[]; query: number }) {
  const [first] = rows;
  if (first === undefined) return null;
  const isShared = rows.every(({ values }) => values.length === first.values.length);
  const order = Array.from(first.values.keys())
    .sort((a, b) => (first.values[b] || 0) - (first.values[a] || 0))
    .slice(0, TOP);
  return (
    <div class="table-scroll largest-keys">
      <table class="facts ruled">
        <caption>largest keys of the {first.head.name}</caption>
        <thead>
          <tr>
            <th scope="col">key</th>
            {(isShared ? rows : [first]).map(({ head }) => (
              <th key={head.name} scope="col" class="number">
                {head.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {order.map((key) => (
            <tr key={key}>
              <td class="mono">{shortened(keyLabel(first.head, key, first.values.length), 24)}</td>
              {(isShared ? rows : [first]).map(({ head, values }) => (
                <td key={head.name} class="number">
                  {Number.isFinite(values[key])
                    ? values[key]!.toFixed(4)
                    : rowStateWords(head.head, Math.min(query, head.head.queries - 1)) || "hidden"}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
