import { exactNumber } from "../../ui/format";
import type { Dimension } from "./audit_rows";
import { pairDimensions } from "./dimension_pairs";

/**
 * The dimensions of both outputs as bars, paired by meaning. Bars of a pair share a scale, so that "four times as many
 * channels" is four times as long; the batch is never compared.
 */
export function DimensionBars({ teacher, student }: { teacher: Dimension[]; student: Dimension[] }) {
  const pairs = pairDimensions(teacher, student);
  const isPaired = teacher.length > 0 && student.length > 0;
  if (pairs.length === 0) return <p class="soft">No tensor to compare.</p>;
  return (
    <table class="dimensions">
      <caption class="visually-hidden">Dimensions of both outputs</caption>
      <thead class="visually-hidden">
        <tr>
          <th>dimension</th>
          <th>teacher</th>
          <th>student</th>
        </tr>
      </thead>
      <tbody>
        {pairs.map((pair) => {
          const largest = Math.max(pair.teacher ?? 0, pair.student ?? 0, 1);
          const isBatch = pair.name === "batch";
          const differs = isPaired && !isBatch && pair.teacher !== pair.student;
          return (
            <tr key={pair.key} class={differs ? "differs" : isBatch ? "batch" : ""}>
              <th scope="row">
                {differs && <span aria-hidden="true">≠ </span>}
                {pair.name}
              </th>
              <Bar side="T" size={pair.teacher} largest={largest} text={pair.teacherText} />
              <Bar side="S" size={pair.student} largest={largest} text={pair.studentText} />
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Bar(props: { side: "T" | "S"; size: number | null; largest: number; text: string }) {
  const { side, size, largest, text } = props;
  // "tokens 197 = 1 + 14x14": what follows the size says what it is made of.
  const parts = /= (.+)$/.exec(text)?.[1];
  return (
    <td data-tip={text || undefined}>
      <span class="bar-line">
        <span class="side-letter" aria-hidden="true">
          {side}
        </span>
        {size === null ? (
          <span class="soft">—</span>
        ) : (
          <>
            <span class="track">
              <i style={{ width: `${Math.max(2, (100 * size) / largest)}%` }} />
            </span>
            <span class="size">
              {exactNumber(size)}
              {parts !== undefined && <span class="soft"> = {parts}</span>}
            </span>
          </>
        )}
      </span>
    </td>
  );
}
