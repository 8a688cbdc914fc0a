import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { MatrixCanvas, type MatrixCell, type MatrixPicture } from "../../heatmap/matrix_canvas";
import type { Box } from "../../heatmap/rasterize";
import { palette } from "../../ui/tokens";
import { tooltip } from "../../ui/tooltip";

interface MatrixViewProps {
  label: string;
  picture: MatrixPicture;
  dark: boolean;
  describe: (cell: MatrixCell) => string;
  onSelect: (cell: MatrixCell) => void;
  /** The part in view, in positions; null for all. */
  view: Box | null;
  onView: (view: Box | null) => void;
  /** Hands out the canvas, for download. */
  onCanvas?: (canvas: HTMLCanvasElement) => void;
}

/** A matrix canvas as a component. */
export function MatrixView(props: MatrixViewProps) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<MatrixCanvas | null>(null);
  const pointer = useRef({ x: 0, y: 0 });
  const latest = useRef(props);
  latest.current = props;
  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    const { text, textSoft, border, focus } = palette(latest.current.dark);
    const created = new MatrixCanvas(
      element,
      { text, textSoft, border, focus },
      {
        onHover(cell) {
          if (cell === null) {
            tooltip.hide();
            return;
          }
          const box = element.getBoundingClientRect();
          const inside = pointer.current.x > 0;
          const x = inside ? pointer.current.x : box.left + 24;
          const y = inside ? pointer.current.y : box.top;
          tooltip.show(latest.current.describe(cell), x, y);
        },
        onSelect: (cell) => latest.current.onSelect(cell),
        onView(view) {
          const { rows, columns } = latest.current.picture;
          latest.current.onView(view.width >= columns && view.height >= rows ? null : view);
        },
      },
    );
    canvas.current = created;
    latest.current.onCanvas?.(created.canvas);
    const follow = (event: PointerEvent) => {
      pointer.current = { x: event.clientX, y: event.clientY };
    };
    const leave = () => {
      pointer.current = { x: 0, y: 0 };
      tooltip.hide();
    };
    // Before the canvas's own listeners, which ask for the position.
    element.addEventListener("pointermove", follow, { capture: true });
    element.addEventListener("pointerleave", leave);
    return () => {
      element.removeEventListener("pointermove", follow, { capture: true });
      element.removeEventListener("pointerleave", leave);
      created.destroy();
    };
  }, []);
  useEffect(() => {
    const { text, textSoft, border, focus } = palette(props.dark);
    canvas.current?.show(props.picture, { text, textSoft, border, focus }, props.view);
  }, [props.picture, props.dark, props.view]);
  return (
    <div
      ref={host}
      class="matrix-view"
      role="application"
      aria-roledescription="attention map"
      aria-label={`${props.label}. Arrow keys move, Enter chooses the query.`}
    />
  );
}
