import { ChartScale, type Series } from "../../heatmap/line_chart";
import { tooltip } from "../../ui/tooltip";

export interface ChartSeries extends Series {
  /** Classes of the line: whose it is, and whether it stands back. */
  readonly style: string;
}

interface LineChartProps {
  title: string;
  meaning: string;
  series: readonly ChartSeries[];
  steps: readonly number[];
  current: number;
  onStep: (step: number) => void;
}

const FRAME = { width: 320, height: 150, left: 44, right: 66, top: 8, bottom: 20 };

/** A few quantities over steps; a click goes to the step. */
export function LineChart({ title, meaning, series, steps, current, onStep }: LineChartProps) {
  const scale = new ChartScale(series, FRAME);
  const nearest = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const x = ((event.clientX - box.left) * FRAME.width) / box.width;
    const distance = (step: number) => Math.abs(scale.x(step) - x);
    return steps.reduce((best, step) => (distance(step) < distance(best) ? step : best), steps[0] ?? 0);
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
          onClick={(event) => onStep(nearest(event))}
        >
          <path
            class="axis"
            d={`M${FRAME.left} ${FRAME.top}V${FRAME.height - FRAME.bottom}H${FRAME.width - FRAME.right}`}
          />
          {[...new Set([scale.high, scale.low])].map((value) => (
            <text key={value} x={FRAME.left - 4} y={scale.y(value) + 4} class="tick end">
              {text(value)}
            </text>
          ))}
          {[...new Set([scale.minX, scale.maxX])].map((step) => (
            <text key={step} x={scale.x(step)} y={FRAME.height - 6} class="tick middle">
              {step}
            </text>
          ))}
          {steps.includes(current) && (
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

/** Names at the lines' ends, moved apart where they would overlap; beyond ten they would say nothing. */
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
    const label = labels[index]!;
    labels[index] = { ...label, y: Math.max(label.y, labels[index - 1]!.y + 11) };
  }
  // The last ones must not leave the picture.
  const overflow = (labels.at(-1)?.y ?? 0) - (FRAME.height - FRAME.bottom + 2);
  return overflow > 0 ? labels.map(({ name, y }) => ({ name, y: y - overflow })) : labels;
}

function text(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(Math.abs(value) >= 10 ? 1 : 3);
}
