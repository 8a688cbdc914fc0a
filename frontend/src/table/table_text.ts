import type { TableColumn } from "./columns";

/** The rows given as a Markdown table. */
export function toMarkdown(columns: readonly TableColumn[], rows: Iterable<number>): string {
  const escaped = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const lines = [
    line(columns.map((column) => escaped(column.label))),
    line(columns.map((column) => (column.align === "end" ? "---:" : "---"))),
  ];
  for (const row of rows) lines.push(line(columns.map((column) => escaped(column.text(row)))));
  return `${lines.join("\n")}\n`;
}

/** The rows given as tab-separated text, as spreadsheets take it from the clipboard. */
export function toTsv(columns: readonly TableColumn[], rows: Iterable<number>): string {
  const clean = (text: string) => text.replace(/[\t\r\n]+/g, " ");
  const lines = [columns.map((column) => clean(column.label)).join("\t")];
  for (const row of rows) lines.push(columns.map((column) => clean(column.text(row))).join("\t"));
  return `${lines.join("\n")}\n`;
}

/** The rows given as CSV (RFC 4180), with full numbers where the column has them. */
export function toCsv(columns: readonly TableColumn[], rows: Iterable<number>): string {
  const quote = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const cell = (column: TableColumn, row: number) => {
    const value = column.number?.(row);
    if (value === undefined) return quote(column.text(row));
    return Number.isNaN(value) ? "" : String(value);
  };
  const lines = [columns.map((column) => quote(column.id)).join(",")];
  for (const row of rows) lines.push(columns.map((column) => cell(column, row)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}
