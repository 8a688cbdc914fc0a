import { MeasuredBar } from "../../ui/MeasuredBar";
import type { AuditState } from "./audit_state";
import type { MeasuredColumns } from "./measured_columns";

/** By which measured quantity the table is coloured. */
export function MeasuredChoice({ state, measured }: { state: AuditState; measured: MeasuredColumns }) {
  const quantities = measured.state.quantities.value;
  const chosen = state.colour.value;
  if (!quantities.length && !chosen) return null;
  return (
    <label class="policy" data-tip="Shows what was measured of teacher and student, and colours its cells">
      colour by{" "}
      <select
        value={chosen}
        onChange={(event) => {
          state.colour.value = event.currentTarget.value;
        }}
      >
        <option value="">nothing</option>
        {chosen && !quantities.some(({ name }) => name === chosen) && <option>{chosen}</option>}
        {quantities.map(({ name, label }) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The step of what is shown; nothing while no measured column is. */
export function MeasuredStep({ measured }: { measured: MeasuredColumns }) {
  const name = measured.leading;
  return name ? <MeasuredBar state={measured.state} name={name} /> : null;
}
