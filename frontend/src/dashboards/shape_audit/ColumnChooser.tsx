import { useSignal } from "@preact/signals";
import type { TableColumn } from "../../table/columns";
import { Button } from "../../ui/Button";

/** Which columns a table shows. */
export function ColumnChooser({
  columns,
  visible,
  onToggle,
  onReset,
}: {
  columns: readonly TableColumn[];
  visible: ReadonlySet<string>;
  onToggle: (id: string) => void;
  onReset: () => void;
}) {
  const open = useSignal(false);
  const close = () => {
    open.value = false;
  };
  return (
    <fieldset
      class="menu column-chooser"
      aria-label="Columns"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !open.value) return;
        close();
        event.stopPropagation();
      }}
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) close();
      }}
    >
      <button
        type="button"
        class="button"
        aria-expanded={open.value}
        onClick={() => {
          open.value = !open.value;
        }}
      >
        Columns ▾
      </button>
      {open.value && (
        <div class="popup" tabIndex={-1}>
          {columns.map((column) => (
            <label key={column.id} data-tip={column.title}>
              <input type="checkbox" checked={visible.has(column.id)} onChange={() => onToggle(column.id)} />
              {column.label}
            </label>
          ))}
          <Button label="Show the usual columns" onClick={onReset}>
            Reset
          </Button>
        </div>
      )}
    </fieldset>
  );
}
