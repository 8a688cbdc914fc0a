import { KINDS } from "../ui/kinds";
import { type DiffTree, NodeType, type SideName } from "./diff_tree";
import type { ModelSide } from "./model_side";

type Test = (tree: DiffTree, node: number, side: SideName, model: ModelSide) => boolean;

/**
 * What a search means. All parts, separated by spaces, must hold on one side of a node:
 *
 * - `conv` – in the path, the class or the operator's name; `/^layer[12]/` – regular expression
 * - `class:Linear`, `op:softmax`, `path:encoder`, `kind:resized`, `dtype:float16`
 * - `shape:[*,256,28,*]` – of a result; `stride=2` – an attribute whose value holds that text
 *
 * `error` says what cannot be understood.
 */
export interface SearchQuery {
  matches(tree: DiffTree, node: number): boolean;
  error: string;
}

export function parseQuery(text: string): SearchQuery {
  const tests: Test[] = [];
  for (const token of tokens(text)) {
    const made = testOf(token);
    if (typeof made === "string") return { matches: () => false, error: made };
    tests.push(made);
  }
  return {
    error: "",
    matches: (tree, node) =>
      tests.length > 0 &&
      tree.type[node] !== NodeType.FOLD &&
      (["teacher", "student"] as const).some((side) => {
        const model = tree.side(side);
        return (
          model !== null && tree.hasSide(node, side) && tests.every((test) => test(tree, node, side, model))
        );
      }),
  };
}

/** Splits at spaces outside of brackets and slashes. */
function tokens(text: string): string[] {
  return text.match(/\/(?:\\.|[^/\\])+\/|\S*\[[^\]]*\]?\S*|\S+/g) ?? [];
}

function testOf(token: string): Test | string {
  if (token.length > 1 && token.startsWith("/") && token.endsWith("/")) {
    try {
      const pattern = new RegExp(token.slice(1, -1), "i");
      return (tree, node, side, model) => pattern.test(wordsOf(tree, node, side, model));
    } catch {
      return `${token} is not a regular expression`;
    }
  }
  const [, field, value] = /^(class|op|path|kind|is|dtype|shape):(.*)$/is.exec(token) ?? [];
  if (field !== undefined && value !== undefined) return fieldTest(field.toLowerCase(), value);
  const [, name, wanted] = /^([\w.]+)=(.*)$/s.exec(token) ?? [];
  if (name !== undefined && wanted !== undefined) {
    return (tree, node, side, model) =>
      attributesOf(tree, node, side, model).get(name)?.includes(wanted) ?? false;
  }
  const word = token.toLowerCase();
  return (tree, node, side, model) => wordsOf(tree, node, side, model).toLowerCase().includes(word);
}

function fieldTest(field: string, value: string): Test | string {
  const word = value.toLowerCase();
  const isOperator = (tree: DiffTree, node: number) => tree.type[node] === NodeType.OPERATOR;
  switch (field) {
    case "class":
      return (tree, node, side, model) =>
        !isOperator(tree, node) && model.callClass(tree[side][node]!).toLowerCase().includes(word);
    case "op":
      return (tree, node, side, model) =>
        isOperator(tree, node) && model.operatorName(tree[side][node]!).toLowerCase().includes(word);
    case "path":
      return (tree, node, side, model) => pathOf(tree, node, side, model).toLowerCase().includes(word);
    case "dtype":
      return (tree, node, side, model) => {
        const output = model.mainOutput(tree[side][node]!, isOperator(tree, node));
        return output >= 0 && model.dtype(output).includes(word);
      };
    case "shape": {
      const pattern = shapePattern(value);
      if (!pattern) return `${value} is not a shape; write for example shape:[*,256,28,28]`;
      return (tree, node, side, model) => {
        const table = isOperator(tree, node) ? model.tables.operators : model.tables.calls;
        const row = tree[side][node]!;
        return [...table.row("outputs", row), ...table.row("inputs", row)].some((tensor) =>
          pattern(model.shape(tensor)),
        );
      };
    }
    default: {
      const kinds = KINDS.filter((kind) => kind.id.startsWith(word) || kind.name.includes(word));
      if (!kinds.length) return `${value} is no kind; kinds are ${KINDS.map(({ id }) => id).join(", ")}`;
      return (tree, node) => kinds.some(({ kind }) => kind === tree.kind[node]);
    }
  }
}

/** `[*,256,28,*]`, `256x28`, `…,768`: a star stands for any size, dots for any number of dimensions. */
function shapePattern(text: string): ((shape: ArrayLike<number>) => boolean) | null {
  const parts = text
    .replace(/^\[|\]$/g, "")
    .split(/[,x×]/i)
    .map((part) => part.trim())
    .filter(Boolean);
  if (!parts.length || parts.some((part) => !/^(\d+|\*|\.\.\.|…)$/.test(part))) return null;
  const source = parts
    .map((part) => (part === "*" ? "\\d+," : part === "..." || part === "…" ? "(?:\\d+,)*" : `${part},`))
    .join("");
  const pattern = new RegExp(`^${source}$`);
  return (shape) => pattern.test(Array.from(shape, (size) => `${size},`).join(""));
}

function pathOf(tree: DiffTree, node: number, side: SideName, model: ModelSide): string {
  const row = tree[side][node]!;
  return model.callPath(tree.type[node] === NodeType.OPERATOR ? model.operatorCall[row]! : row);
}

function wordsOf(tree: DiffTree, node: number, side: SideName, model: ModelSide): string {
  const row = tree[side][node]!;
  return tree.type[node] === NodeType.OPERATOR
    ? model.operatorName(row)
    : `${model.callPath(row)} ${model.callClass(row)}`;
}

function attributesOf(tree: DiffTree, node: number, side: SideName, model: ModelSide): Map<string, string> {
  const row = tree[side][node]!;
  return tree.type[node] === NodeType.OPERATOR ? model.operatorAttributes(row) : model.callAttributes(row);
}
