import { type DiffTree, NodeType } from "../../graph/diff_tree";
import type { ModelSide } from "../../graph/model_side";
import { shapeText } from "../../ui/format";
import { compareMaps, type FactLine } from "./pair_facts";
import { spreadText } from "./spread_text";

/** Parameters and buffers that a module owns itself: shape, dtype, and how they are spread over ranks. */
export function parameterLines(tree: DiffTree, node: number): FactLine[] {
  if (tree.type[node] !== NodeType.CALL) return [];
  const of = (side: "teacher" | "student") => {
    const model = tree.side(side);
    const call = tree[side][node]!;
    return model && call >= 0 ? ownParameters(model, call) : null;
  };
  return compareMaps(of("teacher"), of("student"));
}

function ownParameters(model: ModelSide, call: number): Map<string, string> {
  const { modules, parameters } = model.tables;
  const found = new Map<string, string>();
  for (const row of modules.row("parameters", model.callModule[call]!)) {
    const name = parameters.text("path", row).split(".").at(-1)!;
    const shape = shapeText(parameters.row("shape", row));
    found.set(name, `${shape} ${parameters.text("dtype", row)}${spreadText(parameters, row)}`);
  }
  return found;
}
