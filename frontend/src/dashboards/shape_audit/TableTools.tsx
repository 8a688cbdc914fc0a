import type { ComponentChildren, RefObject } from "preact";
import type { TableModel } from "../../table/table_model";
import { toCsv, toMarkdown, toTsv } from "../../table/table_text";
import { announce } from "../../ui/announce";
import { copyText } from "../../ui/copy";
import { download } from "../../ui/download";
import type { ExportItem } from "../../ui/Frame";
import { ColumnChooser } from "./ColumnChooser";

interface TableToolsProps {
  searchRef: RefObject<HTMLInputElement | null>;
  /** What the search looks into, e.g. "these columns". */
  searched: string;
  find: string;
  onFind: (text: string) => void;
  model: TableModel;
  visible: ReadonlySet<string>;
  onToggleColumn: (id: string) => void;
  onResetColumns: () => void;
  /** Between the search and the columns. */
  choices: ComponentChildren;
  /** By what the cells are coloured. */
  measured?: ComponentChildren;
  /** Behind the columns. */
  children: ComponentChildren;
}

/** The row of tools above a table: search, choices, columns, and what the table says of itself. */
export function TableTools(props: TableToolsProps) {
  return (
    <div class="table-bar">
      <input
        ref={props.searchRef}
        type="search"
        placeholder={`Search ${props.searched}  /`}
        aria-label={`Search ${props.searched}`}
        value={props.find}
        onInput={(event) => props.onFind(event.currentTarget.value)}
      />
      {props.choices}
      <ColumnChooser
        columns={props.model.columns}
        visible={props.visible}
        onToggle={props.onToggleColumn}
        onReset={props.onResetColumns}
      />
      {props.measured}
      {props.children}
    </div>
  );
}

/** Copies and downloads of the rows that a table shows, in its columns. */
export function rowExports(model: TableModel, visible: ReadonlySet<string>, fileName: string): ExportItem[] {
  const columns = model.columns.filter((column) => visible.has(column.id));
  const copy = (text: string) =>
    void copyText(text).then((copied) => announce(copied ? "Copied" : "The browser did not allow copying"));
  return [
    { label: "Copy these rows as Markdown", run: () => copy(toMarkdown(columns, model.rows())) },
    { label: "Copy these rows as TSV", run: () => copy(toTsv(columns, model.rows())) },
    {
      label: "Download these rows as CSV",
      run: () => download(`${fileName}.csv`, toCsv(columns, model.rows()), "text/csv;charset=utf-8"),
    },
  ];
}
