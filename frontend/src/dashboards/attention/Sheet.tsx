import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { SheetCell, SheetLayout } from "../../heatmap/sheet_layout";
import { drawSheet, type Thumbnail } from "../../heatmap/thumbnail_sheet";
import { palette } from "../../ui/tokens";
import { tooltip } from "../../ui/tooltip";

interface SheetProps {
  label: string;
  layout: SheetLayout;
  thumbnails: readonly Thumbnail[];
  rowLabels: readonly string[];
  dark: boolean;
  selected: SheetCell | null;
  describe: (cell: SheetCell) => string;
  onSelect: (cell: SheetCell, alone: boolean) => void;
  onOpen: (cell: SheetCell) => void;
}

/** All heads of a model on one canvas; arrow keys move the choice, Enter opens it. */
export function Sheet(props: SheetProps) {
  const { layout, thumbnails, rowLabels, dark, selected, describe } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<SheetCell | null>(null);
  useLayoutEffect(() => {
    if (canvas.current === null) return;
    const { textFaint, border } = palette(dark);
    drawSheet(
      canvas.current,
      layout,
      thumbnails,
      rowLabels,
      { label: textFaint, empty: border },
      devicePixelRatio || 1,
    );
  }, [layout, thumbnails, rowLabels, dark]);

  const cellAt = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return box === undefined ? null : layout.at(event.clientX - box.left, event.clientY - box.top);
  };
  const onPointerMove = (event: PointerEvent) => {
    const cell = cellAt(event);
    if (cell?.row !== hovered?.row || cell?.column !== hovered?.column) setHovered(cell);
    if (cell === null) tooltip.hide();
    else tooltip.show(describe(cell), event.clientX, event.clientY);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const current = selected ?? { row: 0, column: 0 };
    const next = layout.move(current, event.key);
    if (next !== null) props.onSelect(next, event.shiftKey);
    else if (event.key === "Enter") props.onOpen(current);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="sheet"
      role="application"
      aria-roledescription="grid of heads"
      aria-label={`${props.label}. ${selected === null ? "" : describe(selected)}`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a widget of its own, moved through with the arrow keys
      tabIndex={0}
      style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
      onPointerMove={onPointerMove}
      onPointerLeave={() => {
        setHovered(null);
        tooltip.hide();
      }}
      onClick={(event) => {
        const cell = cellAt(event);
        if (cell !== null) props.onSelect(cell, event.shiftKey);
      }}
      onDblClick={(event) => {
        const cell = cellAt(event);
        if (cell !== null) props.onOpen(cell);
      }}
      onKeyDown={onKeyDown}
    >
      <canvas ref={canvas} />
      {hovered !== null && <Frame layout={layout} cell={hovered} kind="hovered" />}
      {selected !== null && selected.row < layout.rowLengths.length && (
        <Frame layout={layout} cell={selected} kind="selected" />
      )}
    </div>
  );
}

function Frame({ layout, cell, kind }: { layout: SheetLayout; cell: SheetCell; kind: string }) {
  const { x, y } = layout.position(cell);
  const size = `${layout.size + 4}px`;
  return (
    <i
      class={`sheet-frame ${kind}`}
      style={{ left: `${x - 2}px`, top: `${y - 2}px`, width: size, height: size }}
    />
  );
}
