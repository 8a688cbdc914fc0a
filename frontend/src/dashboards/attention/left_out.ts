import type { AttentionOverview } from "../../wire/attention";

/** How many of a head's queries are not in its statistics, in words; "" when all are. */
export function leftOutText(overview: AttentionOverview, layer: number, head: number): string {
  const queries = overview.layers[layer]?.queryLength ?? 0;
  const number = (column: string) => overview.statistic(column, layer, head) || 0;
  const of = (count: number) => (count === queries ? `all ${queries}` : `${count} of ${queries}`);
  const [broken, masked] = [number("non_finite_rows"), number("masked_rows")];
  return [
    broken > 0 ? `${of(broken)} queries hold NaN or infinity` : "",
    masked > 0 ? `${of(masked)} queries see no key` : "",
  ]
    .filter((text) => text !== "")
    .join(", ");
}

/** How many heads of a model hold NaN or infinity, and how many it has. */
export function brokenHeads(overview: AttentionOverview): { broken: number; heads: number } {
  let broken = 0;
  let heads = 0;
  overview.layers.forEach((record, layer) => {
    if (record.notCaptured !== "") return;
    heads += record.heads;
    for (let head = 0; head < record.heads; head++)
      if (overview.statistic("non_finite_rows", layer, head) > 0) broken++;
  });
  return { broken, heads };
}
