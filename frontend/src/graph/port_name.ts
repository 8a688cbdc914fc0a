import type { DiffTree, SideName } from "./diff_tree";
import type { Port } from "./level";

/** What the pill of an input or output says: its name, and how many more values share the pill. */
export function pillText(tree: DiffTree, port: Port, side: SideName, isOutput: boolean): string {
  const name = portName(tree, port, side, isOutput);
  return name && port.count > 1 ? `${name} +${port.count - 1}` : name;
}

/** What an input or output of the whole model is called on one side; "" where the side has none. */
export function portName(tree: DiffTree, port: Port, side: SideName, isOutput: boolean): string {
  const model = tree.side(side);
  const tensor = side === "teacher" ? port.teacherTensor : port.studentTensor;
  if (!model || tensor < 0) return "";
  const { calls, tensors } = model.tables;
  const column = isOutput ? "outputs" : "inputs";
  const position = calls.row(column, 0).indexOf(tensor);
  if (position >= 0) {
    const name = calls.texts(isOutput ? "output_names" : "input_names", 0)[position] ?? "";
    if (name && !/^\d+$/.test(name)) return name;
    const several = calls.row(column, 0).length > 1;
    return `${isOutput ? "output" : "input"}${several ? ` ${name || position}` : ""}`;
  }
  return tensors.text("name", tensor) || (isOutput ? "output" : "input");
}
