import { useLayoutEffect, useRef } from "preact/hooks";
import { createPixels, type Matrix, rasterize } from "../../heatmap/rasterize";
import { ROW_STATE_WORDS } from "../../heatmap/row_states";

const SIZE = 14;

/** What the patterns in the maps given stand for; nothing when there are none. */
export function RowMarks({ matrices }: { matrices: Iterable<Matrix> }) {
  const present = new Set<number>();
  for (const { rowStates } of matrices)
    for (const state of rowStates ?? []) if (state > 0) present.add(state);
  if (present.size === 0) return null;
  return (
    <span class="row-marks">
      {[...present].sort().map((state) => (
        <span key={state}>
          <Swatch state={state} /> {ROW_STATE_WORDS[state]}
        </span>
      ))}
    </span>
  );
}

function Swatch({ state }: { state: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const side = Math.round(SIZE * (devicePixelRatio || 1));
    const element = canvas.current;
    if (element === null) return;
    element.width = side;
    element.height = side;
    const pixels = createPixels(side, side);
    const row: Matrix = { values: [Number.NaN], rows: 1, columns: 1, rowStates: Uint8Array.of(state) };
    const box = { x: 0, y: 0, width: side, height: side };
    rasterize(pixels, box, row, { x: 0, y: 0, width: 1, height: 1 }, () => -1, new Uint32Array(256));
    const bytes = new Uint8ClampedArray(pixels.data.buffer as ArrayBuffer);
    element.getContext("2d")?.putImageData(new ImageData(bytes, side, side), 0, 0);
  }, [state]);
  return (
    <canvas ref={canvas} class="swatch" style={{ width: `${SIZE}px`, height: `${SIZE}px` }} aria-hidden />
  );
}
