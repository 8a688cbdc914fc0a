/** A filter as a person types it into a column: a test of a cell's text and, in numeric columns, of its number. */
export type CellTest = (text: string, value: number) => boolean;

const COMPARISON = /^(<=|>=|!=|=|<|>)\s*(.*)$/s;
const MAGNITUDES: Readonly<Record<string, number>> = { k: 1e3, m: 1e6, g: 1e9, b: 1e9, t: 1e12 };

/** Reads "1.5M", "20 k", "3e6" or "0.5"; null when it is not a number. */
export function parseQuantity(text: string): number | null {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([kmgbt]?)\s*×?$/i.exec(
    text.trim().replaceAll(",", ""),
  );
  if (match === null) return null;
  const magnitude = MAGNITUDES[(match[2] ?? "").toLowerCase()] ?? 1;
  return Number(match[1]) * magnitude;
}

/**
 * Compiles a column filter. Words are substrings that must all occur, in any case; `!word` must not occur; `=text` is
 * equality; in numeric columns `<`, `<=`, `>`, `>=`, `=`, `!=` compare with a number such as 1.5M.
 * Returns null for a filter that lets every cell pass.
 */
export function compileFilter(expression: string, numeric: boolean): CellTest | null {
  const trimmed = expression.trim();
  if (trimmed === "") return null;
  const comparison = COMPARISON.exec(trimmed);
  if (comparison !== null) {
    const operator = comparison[1] ?? "";
    const operand = (comparison[2] ?? "").trim();
    if (operand === "") return null;
    const quantity = numeric ? parseQuantity(operand) : null;
    if (quantity !== null) return numericTest(operator, quantity);
    const wanted = operand.toLowerCase();
    if (operator === "=") return (text) => text.toLowerCase() === wanted;
    if (operator === "!=") return (text) => text.toLowerCase() !== wanted;
  }
  const tests = trimmed
    .toLowerCase()
    .split(/\s+/)
    .map((word) =>
      word.length > 1 && word.startsWith("!")
        ? { word: word.slice(1), wanted: false }
        : { word, wanted: true },
    );
  return (text) => {
    const haystack = text.toLowerCase();
    return tests.every(({ word, wanted }) => haystack.includes(word) === wanted);
  };
}

function numericTest(operator: string, operand: number): CellTest {
  // Shown values are rounded; "=" must find what a person reads, so it allows half a percent.
  const near = (value: number) => Math.abs(value - operand) <= Math.abs(operand) * 0.005;
  switch (operator) {
    case "<":
      return (_, value) => value < operand;
    case "<=":
      return (_, value) => value <= operand;
    case ">":
      return (_, value) => value > operand;
    case ">=":
      return (_, value) => value >= operand;
    case "!=":
      return (_, value) => !near(value);
    default:
      return (_, value) => near(value);
  }
}
