import { type AttentionState, SIDES } from "./attention_state";
import { countText, LEFT_OUT, STATISTICS, statisticText } from "./statistics";

/** Heads shown at most; a browser lays out plain tables slowly. */
const LIMIT = 2000;

/** The overview for keyboards and screen readers: a row a head. */
export function HeadTable({ state }: { state: AttentionState }) {
  const rows = SIDES.flatMap((name) => {
    const overview = state.overview(name);
    return (overview?.layers ?? []).flatMap((record, layer) =>
      Array.from({ length: record.notCaptured === "" ? record.heads : 0 }, (_, head) => ({
        name,
        layer,
        head,
      })),
    );
  });
  return (
    <div class="table-scroll">
      <table class="facts ruled">
        <thead>
          <tr>
            <th scope="col">model</th>
            <th scope="col">layer</th>
            <th scope="col">head</th>
            {[...STATISTICS, ...LEFT_OUT].map(({ id, label, meaning }) => (
              <th key={id} scope="col" class="number" data-tip={meaning}>
                {label}
              </th>
            ))}
            <th scope="col">
              <span class="visually-hidden">open</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, LIMIT).map(({ name, layer, head }) => {
            const chosen = state.chosen[name].value;
            const isChosen = chosen?.layer === layer && chosen.head === head;
            return (
              <tr key={`${name} ${layer} ${head}`} class={isChosen ? "chosen" : ""}>
                <td>{name}</td>
                <td class="number">{layer}</td>
                <td class="number">{head}</td>
                {STATISTICS.map(({ id }) => (
                  <td key={id} class="number">
                    {statisticText(state.overview(name)?.statistic(id, layer, head) ?? Number.NaN)}
                  </td>
                ))}
                {LEFT_OUT.map(({ id }) => (
                  <td key={id} class="number">
                    {countText(state.overview(name)?.statistic(id, layer, head) ?? Number.NaN)}
                  </td>
                ))}
                <td>
                  <button
                    type="button"
                    class="link"
                    onClick={() => {
                      state.choose(name, { layer, head });
                      state.view.value = "head";
                    }}
                  >
                    open
                  </button>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {rows.length > LIMIT && (
        <p class="soft">
          The first {LIMIT} of {rows.length} heads; download the statistics for all.
        </p>
      )}
    </div>
  );
}
