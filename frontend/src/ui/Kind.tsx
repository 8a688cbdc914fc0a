import type { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import { kindStyle } from "./kinds";

/** The badge of a kind: glyph on its colour, name on demand. */
export function KindBadge({ kind, confidence = 1 }: { kind: PairKind; confidence?: number }) {
  const style = kindStyle(kind);
  if (!style.glyph) return null;
  const doubtful = confidence < 0.6 ? "doubtful" : "";
  const sure = confidence < 1 ? ` · confidence ${confidence.toFixed(2)}` : "";
  return (
    <span
      class={`kind tone-${style.tone} ${doubtful}`}
      role="img"
      aria-label={style.name}
      data-tip={`${style.name}: ${style.meaning}${sure}`}
    >
      {style.glyph}
    </span>
  );
}
