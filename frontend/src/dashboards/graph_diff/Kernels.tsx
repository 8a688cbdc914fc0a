import { useEffect, useMemo } from "preact/hooks";
import type { DiffTree } from "../../graph/diff_tree";
import type { ModelSide } from "../../graph/model_side";
import { Button } from "../../ui/Button";
import { Resource } from "../../ui/resource";
import type { Columns } from "../../wire/columns";
import { fetchKernels } from "../../wire/structure";

const fetched = new WeakMap<ModelSide, Promise<Columns>>();

/** What the dispatcher ran for an operator; fetched when asked for. */
export function Kernels({ tree, node }: { tree: DiffTree; node: number }) {
  const side = tree.hasSide(node, "teacher") ? "teacher" : "student";
  const model = tree.side(side)!;
  const operator = tree[side][node]!;
  const kernels = useMemo(() => new Resource<string[]>(), []);
  const load = () =>
    void kernels.load("Reading the kernels", async () => {
      const table = await (fetched.get(model) ?? keep(model));
      const begin = model.tables.operators.number("kernel_begin")[operator]!;
      const end = model.tables.operators.number("kernel_end")[operator]!;
      return Array.from({ length: end - begin }, (_, index) => table.text("name", begin + index));
    });
  useEffect(() => {
    if (fetched.has(model)) load();
  });
  const { status, value, error } = kernels.state.value;
  return (
    <section>
      <h3>Kernels</h3>
      {status === "idle" && (
        <Button label="Show what the dispatcher ran for this operator" onClick={load}>
          Show
        </Button>
      )}
      {error && <p>{error.message}</p>}
      <ul class="mono">
        {value?.map((name, index) => (
          <li key={index}>{name}</li>
        ))}
      </ul>
    </section>
  );
}

function keep(model: ModelSide): Promise<Columns> {
  const promise = fetchKernels(model.tables);
  promise.catch(() => fetched.delete(model));
  fetched.set(model, promise);
  return promise;
}
