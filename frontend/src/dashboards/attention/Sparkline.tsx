import { ChartScale } from "../../heatmap/line_chart";
import { tooltip } from "../../ui/tooltip";
import type { Point } from "./history";

const FRAME = { width: 200, height: 44, left: 3, right: 3, top: 4, bottom: 4 };

/** One quantity over steps, in a line of text. */
export function Sparkline({
  points,
  current,
  label,
  steps,
}: {
  points: readonly Point[];
  current: number;
  label: string;
  /** How many steps there are, of which some may not have been read yet. */
  steps: number;
}) {
  const scale = new ChartScale([{ name: label, points }], FRAME);
  const known = points.filter(({ y }) => Number.isFinite(y));
  if (scale.isEmpty || known.length < 2) {
    return <span class="soft">{steps < 2 ? "one step so far" : "reading the steps …"}</span>;
  }
  const now = points.find(({ x }) => x === current);
  const onPointerMove = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const x = event.clientX - box.left;
    const near = known.reduce((best, point) =>
      Math.abs(scale.x(point.x) - x) < Math.abs(scale.x(best.x) - x) ? point : best,
    );
    tooltip.show(`step ${near.x}: ${near.y.toFixed(3)}`, event.clientX, event.clientY);
  };
  return (
    <svg
      class="sparkline"
      width={FRAME.width}
      height={FRAME.height}
      role="img"
      aria-label={`${label} over steps: ${known.map(({ x, y }) => `step ${x} ${y.toFixed(2)}`).join(", ")}`}
      onPointerMove={onPointerMove}
      onPointerLeave={() => tooltip.hide()}
    >
      <path class="line pair" d={scale.path({ name: label, points })} />
      {known.map(({ x, y }) => (
        <circle key={x} cx={scale.x(x)} cy={scale.y(y)} r={2} class="point" />
      ))}
      {now !== undefined && Number.isFinite(now.y) && (
        <circle cx={scale.x(now.x)} cy={scale.y(now.y)} r={3.5} class="point now" />
      )}
    </svg>
  );
}
