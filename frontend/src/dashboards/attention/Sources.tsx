import { AttentionRoute } from "../../gen/tb_plugin_structure/v1/attention_pb";
import type { StoredHeads } from "../../wire/attention";
import { type AttentionState, SIDES, type SideName } from "./attention_state";
import { Notes } from "./LayerMap";

const ROUTES: Readonly<Record<number, string>> = {
  [AttentionRoute.FUSED_KERNEL]: "recomputed from a fused kernel's query, key and mask",
  [AttentionRoute.SOFTMAX_MATMUL]: "softmax that a matrix product read, before dropout",
  [AttentionRoute.EXPLICIT]: "given by the user",
  [AttentionRoute.INTERFACE]: "transformers' attention interface",
  [AttentionRoute.PROBE]: "read off the kernel with one-hot values",
};

/** What was captured, how, how exactly, and what was not. */
export function Sources({ state }: { state: AttentionState }) {
  return (
    <section class="sources">
      {SIDES.map((name) =>
        state.overview(name) === undefined ? null : <Source key={name} state={state} name={name} />,
      )}
    </section>
  );
}

function Source({ state, name }: { state: AttentionState; name: SideName }) {
  const overview = state.overview(name);
  const stored = state.data[name].storedHeads.value;
  if (overview === undefined) return null;
  return (
    <section>
      <h2>
        <span class="letter" aria-hidden="true">
          {name === "teacher" ? "T" : "S"}
        </span>{" "}
        {overview.header.model} <span class="soft">{overview.header.example}</span>
      </h2>
      <div class="table-scroll">
        <table class="facts ruled">
          <thead>
            <tr>
              {[
                "layer",
                "module",
                "kind",
                "heads",
                "queries × keys",
                "how",
                "kernel",
                "dtype",
                "mask",
                "exactness",
                "full resolution",
              ].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {overview.layers.map((layer, index) => (
              <tr key={index}>
                <td class="number">{index}</td>
                <td class="mono">
                  {layer.modulePath || "(model)"}
                  {layer.callOrdinal > 0 && <span class="soft"> call {layer.callOrdinal + 1}</span>}
                </td>
                {layer.notCaptured === "" ? (
                  <>
                    <td>{layer.relation || "self"}</td>
                    <td
                      class="number"
                      data-tip={layer.keyHeads < layer.heads ? "query heads share key heads" : undefined}
                    >
                      {layer.heads}
                      {layer.keyHeads > 0 && layer.keyHeads < layer.heads && ` (${layer.keyHeads} key)`}
                    </td>
                    <td class="number">
                      {layer.queryLength} × {layer.keyLength}
                    </td>
                    <td>{ROUTES[layer.route] ?? "unknown"}</td>
                    <td class="mono">{layer.kernel}</td>
                    <td>{layer.dtype}</td>
                    <td>{layer.mask}</td>
                    <td>{layer.exactness}</td>
                    <td>{storedText(stored?.[index], layer.heads)}</td>
                  </>
                ) : (
                  <td colSpan={9} class="not-captured">
                    not captured: {layer.notCaptured}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Notes notes={overview.header.notes} />
    </section>
  );
}

function storedText(stored: readonly StoredHeads[] | undefined, count: number): string {
  if (stored === undefined) return "…";
  if (stored.length === 0) return "overview only";
  return stored
    .map(({ heads, form, guarantee, rows }) => {
      const which = heads.length === count ? "all heads" : `heads ${heads.join(", ")}`;
      const part = rows === undefined ? "" : ` (${rows.length} queries)`;
      return `${which}: ${form}${part}, ${guarantee}`;
    })
    .join("; ");
}
