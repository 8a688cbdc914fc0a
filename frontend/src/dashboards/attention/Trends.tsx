import { useEffect, useMemo } from "preact/hooks";
import { ChartScale, type Series } from "../../heatmap/line_chart";
import { Resource } from "../../ui/resource";
import { Show } from "../../ui/States";
import { tooltip } from "../../ui/tooltip";
import { fetchComparison, fetchStatistics } from "../../wire/attention";
import type { Columns } from "../../wire/columns";
import type { Address } from "../../wire/records";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { STATISTICS } from "./statistics";

/** Steps read at most: enough to see a course, few enough to be quick. */
const MOST_STEPS = 48;

interface TrendData {
  readonly steps: number[];
  readonly statistics: Record<SideName, Columns[]>;
  /** [step][pair]: distance of each layer pair in use. */
  readonly distances: { label: string; points: { x: number; y: number }[] }[];
}

/** How the statistics of both models change while the student learns. */
export function Trends({ state }: { state: AttentionState }) {
  const resource = useMemo(() => new Resource<TrendData>(), []);
  const steps = thin(state.steps.value, MOST_STEPS);
  const sides = SIDES.map((name) => state.side(name));
  const key = JSON.stringify([
    steps,
    sides.map((side) => side?.choice.tag),
    sides.map((side) => side?.choice.run),
  ]);
  useEffect(() => {
    if (steps.length > 1)
      void resource.load("Reading the statistics of all steps", (abort) => readTrends(state, steps, abort));
  }, [key]);
  if (steps.length < 2)
    return <p class="hint">One step is recorded; trends need two. Record attention every few steps.</p>;
  return (
    <Show
      resource={resource}
      onRetry={() =>
        void resource.load("Reading the statistics of all steps", (abort) => readTrends(state, steps, abort))
      }
    >
      {(data) => <Charts state={state} data={data} />}
    </Show>
  );
}

async function readTrends(
  state: AttentionState,
  steps: readonly number[],
  abort: AbortSignal,
): Promise<TrendData> {
  const addresses = (name: SideName): Address[] => {
    const choice = state.side(name)?.choice;
    return steps.flatMap((step) => {
      const record = choice?.steps.find((candidate) => candidate.step === step);
      return choice === undefined || record === undefined
        ? []
        : [{ run: choice.run, tag: choice.tag, step, hash: record.hash }];
    });
  };
  const teachers = addresses("teacher");
  const students = addresses("student");
  const [teacher, student] = await Promise.all(
    [teachers, students].map((side) => Promise.all(side.map((address) => fetchStatistics(address, abort)))),
  );
  const comparisons =
    students.length === 0
      ? []
      : await Promise.all(
          teachers.map((address, index) => fetchComparison(address, students[index]!, abort)),
        );
  const pairs = state.comparison.state.peek().value?.layer_pairs ?? comparisons.at(-1)?.layer_pairs ?? [];
  return {
    steps: [...steps],
    statistics: { teacher: teacher ?? [], student: student ?? [] },
    distances: pairs.map(([t, s]) => ({
      label: `T${t} · S${s}`,
      points: comparisons.map((comparison, index) => ({
        x: steps[index]!,
        y: comparison.layer_distances[t]?.[s] ?? Number.NaN,
      })),
    })),
  };
}

/** At most `count` of the values, the first and the last among them. */
export function thin(values: readonly number[], count: number): number[] {
  if (values.length <= count) return [...values];
  return Array.from(
    { length: count },
    (_, index) => values[Math.round((index * (values.length - 1)) / (count - 1))]!,
  );
}

function Charts({ state, data }: { state: AttentionState; data: TrendData }) {
  const current = state.side("teacher")?.address.step ?? Number.NaN;
  const pair = state.pair.value;
  const layerOf = (name: SideName) =>
    pair?.[name === "teacher" ? 0 : 1] ?? state.chosen[name].value?.layer ?? 0;
  const statisticSeries = (id: string): ChartSeries[] =>
    SIDES.filter((name) => data.statistics[name].length > 0).flatMap((name) => {
      const points = (layer: number | null) =>
        data.statistics[name].map((table, index) => ({ x: data.steps[index]!, y: meanOf(table, id, layer) }));
      const letter = name === "teacher" ? "T" : "S";
      return [
        { name: `${letter} all heads`, style: name, points: points(null) },
        { name: `${letter} layer ${layerOf(name)}`, style: `${name} faint`, points: points(layerOf(name)) },
      ];
    });
  const distances = data.distances.map(({ label, points }): ChartSeries => {
    const isChosen = pair !== null && label === `T${pair[0]} · S${pair[1]}`;
    return { name: label, style: isChosen ? "pair" : "pair faint", points };
  });
  const show = (step: number) => state.showStep(step);
  return (
    <section class="trends" aria-label="Statistics over steps">
      <p class="soft">
        Solid: teacher. Dashed: student. Strong: mean over all heads. Faint: the layers of the pair shown
        {pair === null ? "" : ` (T${pair[0]} · S${pair[1]})`}. Click a chart to go to a step.
      </p>
      <div class="charts">
        {distances.length > 0 && (
          <LineChart
            title="distance of paired layers"
            meaning="mean over matched heads; 0 is the same"
            series={distances}
            current={current}
            onStep={show}
            steps={data.steps}
          />
        )}
        {STATISTICS.filter(({ id }) => id !== "entropy").map(({ id, label, meaning }) => (
          <LineChart
            key={id}
            title={label}
            meaning={meaning}
            series={statisticSeries(id)}
            current={current}
            onStep={show}
            steps={data.steps}
          />
        ))}
      </div>
    </section>
  );
}

/** Mean of a statistic over the heads of a layer, or over all heads. */
function meanOf(table: Columns, column: string, layer: number | null): number {
  const values = table.number(column);
  const layers = table.number("layer");
  let sum = 0;
  let count = 0;
  for (let row = 0; row < values.length; row++) {
    const value = values[row] ?? Number.NaN;
    if ((layer !== null && layers[row] !== layer) || !Number.isFinite(value)) continue;
    sum += value;
    count++;
  }
  return count === 0 ? Number.NaN : sum / count;
}

interface ChartSeries extends Series {
  readonly style: string;
}

const FRAME = { width: 320, height: 150, left: 44, right: 62, top: 8, bottom: 20 };

function LineChart(props: {
  title: string;
  meaning: string;
  series: readonly ChartSeries[];
  steps: readonly number[];
  current: number;
  onStep: (step: number) => void;
}) {
  const { title, meaning, series, steps, current } = props;
  const scale = new ChartScale(series, FRAME);
  const nearest = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const x = ((event.clientX - box.left) * FRAME.width) / box.width;
    return steps.reduce(
      (best, step) => (Math.abs(scale.x(step) - x) < Math.abs(scale.x(best) - x) ? step : best),
      steps[0] ?? 0,
    );
  };
  const lines = (step: number) =>
    series
      .map(({ name, points }) => `${name}: ${text(points.find(({ x }) => x === step)?.y ?? Number.NaN)}`)
      .join("\n");
  return (
    <figure class="chart">
      <figcaption data-tip={meaning}>{title}</figcaption>
      {scale.isEmpty ? (
        <p class="soft">not defined for these maps</p>
      ) : (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the step slider does the same by keyboard
        <svg
          viewBox={`0 0 ${FRAME.width} ${FRAME.height}`}
          role="img"
          aria-label={`${title} over steps. At step ${current}: ${lines(current)}`}
          onPointerMove={(event) => {
            const step = nearest(event);
            tooltip.show(`step ${step}\n${lines(step)}`, event.clientX, event.clientY);
          }}
          onPointerLeave={() => tooltip.hide()}
          onClick={(event) => props.onStep(nearest(event))}
        >
          <path
            class="axis"
            d={`M${FRAME.left} ${FRAME.top}V${FRAME.height - FRAME.bottom}H${FRAME.width - FRAME.right}`}
          />
          {[scale.maxY, scale.minY].map((value) => (
            <text key={value} x={FRAME.left - 4} y={scale.y(value) + 4} class="tick end">
              {text(value)}
            </text>
          ))}
          {[scale.minX, scale.maxX].map((step) => (
            <text key={step} x={scale.x(step)} y={FRAME.height - 6} class="tick middle">
              {step}
            </text>
          ))}
          {Number.isFinite(current) && (
            <path class="now" d={`M${scale.x(current)} ${FRAME.top}V${FRAME.height - FRAME.bottom}`} />
          )}
          {series.map((line) => (
            <path key={line.name} class={`line ${line.style}`} d={scale.path(line)} />
          ))}
          {endLabels(series, scale).map(({ name, y }) => (
            <text key={name} x={FRAME.width - FRAME.right + 4} y={y} class="tick">
              {name}
            </text>
          ))}
        </svg>
      )}
    </figure>
  );
}

/** Names at the lines' ends, moved apart where they would overlap. */
function endLabels(series: readonly ChartSeries[], scale: ChartScale): { name: string; y: number }[] {
  const labels = series
    .map(({ name, points }) => ({
      name,
      y: scale.y(points.findLast(({ y }) => Number.isFinite(y))?.y ?? Number.NaN) + 3,
    }))
    .filter(({ y }) => Number.isFinite(y))
    .sort((a, b) => a.y - b.y)
    .slice(0, 10);
  for (let index = 1; index < labels.length; index++) {
    const above = labels[index - 1]!;
    const label = labels[index]!;
    labels[index] = { ...label, y: Math.max(label.y, above.y + 11) };
  }
  return labels;
}

function text(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(Math.abs(value) >= 10 ? 1 : 3);
}
