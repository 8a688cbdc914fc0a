import { exactNumber, ratio, shortBytes, shortDuration, shortNumber } from "../../ui/format";
import type { Quantity } from "./pair_facts";

/** Quantities of both sides, one a line, and the student's share of the teacher's. */
export function Quantities({ list, isPair }: { list: Quantity[]; isPair: boolean }) {
  const text = ({ unit }: Quantity, value: number | null) => {
    if (value === null) return "–";
    if (Number.isNaN(value)) return "unknown";
    if (unit === "plain") return value.toPrecision(3);
    return unit === "bytes" ? shortBytes(value) : unit === "ns" ? shortDuration(value) : shortNumber(value);
  };
  return (
    <table class="facts numbers">
      <caption class="visually-hidden">Cost</caption>
      {isPair && (
        <thead>
          <tr>
            <td />
            <th scope="col">T</th>
            <th scope="col">S</th>
            <th scope="col">S ÷ T</th>
          </tr>
        </thead>
      )}
      <tbody>
        {list.map((quantity) => (
          <tr key={quantity.name}>
            <th scope="row">{quantity.name}</th>
            <td data-tip={quantity.teacher === null ? undefined : exactNumber(quantity.teacher)}>
              {text(quantity, quantity.teacher)}
            </td>
            {isPair && (
              <td data-tip={quantity.student === null ? undefined : exactNumber(quantity.student)}>
                {text(quantity, quantity.student)}
              </td>
            )}
            {isPair && <td>{ratio(quantity.student ?? Number.NaN, quantity.teacher ?? 0)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
