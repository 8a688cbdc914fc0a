import { shapeText } from "../../ui/format";
import type { Columns } from "../../wire/columns";

/** ", here 3×4: Shard(dim=0) over 2" where a value is spread over ranks; "" where it is whole. */
export function spreadText(table: Columns, row: number): string {
  const placement = table.has("placement") ? table.text("placement", row) : "";
  if (!placement) return "";
  const local = table.row("local_shape", row);
  return local.length ? `, here ${shapeText(local)}: ${placement}` : `: ${placement}`;
}
