import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { TableModel } from "../../table/table_model";
import { VirtualTable, type VirtualTableOptions } from "../../table/virtual_table";

interface DataTableProps extends VirtualTableOptions {
  model: TableModel;
  visible: ReadonlySet<string>;
  selected: number;
  /** Changes whenever the model did. */
  version: number;
}

/** A virtual table as a component; the table itself knows nothing of components. */
export function DataTable(props: DataTableProps) {
  const host = useRef<HTMLDivElement>(null);
  const table = useRef<VirtualTable | null>(null);
  const latest = useRef(props);
  latest.current = props;

  useLayoutEffect(() => {
    if (host.current === null) return;
    const { label } = latest.current;
    const begin = performance.now();
    const created = new VirtualTable(host.current, latest.current.model, {
      label,
      onSelect: (row) => latest.current.onSelect?.(row),
      onActivate: (row) => latest.current.onActivate?.(row),
      onChange: () => latest.current.onChange?.(),
      rowClass: (row) => latest.current.rowClass?.(row) ?? "",
    });
    table.current = created;
    // For the benchmark, and for whoever looks at the browser's own timeline.
    performance.measure("table mount", { start: begin, end: performance.now() });
    return () => created.destroy();
  }, []);
  useEffect(() => table.current?.setModel(props.model), [props.model]);
  useEffect(() => table.current?.setVisibleColumns(props.visible), [props.visible, props.model]);
  useEffect(() => table.current?.refresh(), [props.version]);
  useEffect(() => {
    table.current?.select(props.selected);
  }, [props.selected, props.model, props.version]);
  return <div ref={host} />;
}
