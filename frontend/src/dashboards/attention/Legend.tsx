import { type ColorMap, cssGradient } from "../../heatmap/color_maps";
import { type ScaleKind, ValueScale } from "../../heatmap/value_scale";

/** What the colours stand for. */
export function Legend({
  colors,
  kind,
  maximum,
  isSigned,
  label,
}: {
  colors: ColorMap;
  kind: ScaleKind;
  maximum: number;
  isSigned: boolean;
  label: string;
}) {
  const scale = new ValueScale(kind, maximum);
  const ticks = isSigned
    ? [`−${short(maximum)}`, "0", `+${short(maximum)}`]
    : [kind === "log" ? `≤ ${short(scale.valueAt(0))}` : "0", short(scale.valueAt(0.5)), short(maximum)];
  return (
    <span
      class="legend"
      role="img"
      aria-label={`${label}: colours from ${ticks[0]} to ${ticks[2]}, ${kind} scale`}
    >
      <span class="soft">{label}</span>
      <span class="legend-scale">
        <i style={{ background: cssGradient(colors) }} />
        <span class="legend-ticks">
          {ticks.map((tick) => (
            <span key={tick}>{tick}</span>
          ))}
        </span>
      </span>
    </span>
  );
}

function short(value: number): string {
  if (value === 0) return "0";
  return value >= 0.0995 && value < 1000 ? value.toFixed(value >= 9.95 ? 0 : 2) : value.toPrecision(1);
}
