import { useLayoutEffect, useRef } from "preact/hooks";
import type { ColorMap } from "../../heatmap/color_maps";
import { createPixels, type Matrix, rasterize } from "../../heatmap/rasterize";

interface MatrixThumbProps {
  matrix: Matrix;
  colorIndex: (value: number) => number;
  colors: ColorMap;
  size: number;
  label: string;
}

/** One map as a small picture. */
export function MatrixThumb({ matrix, colorIndex, colors, size, label }: MatrixThumbProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const element = canvas.current;
    const side = Math.round(size * (devicePixelRatio || 1));
    if (element === null || matrix.rows === 0 || matrix.columns === 0) return;
    element.width = side;
    element.height = side;
    const pixels = createPixels(side, side);
    const window = { x: 0, y: 0, width: matrix.columns, height: matrix.rows };
    rasterize(pixels, { x: 0, y: 0, width: side, height: side }, matrix, window, colorIndex, colors);
    const bytes = new Uint8ClampedArray(pixels.data.buffer as ArrayBuffer);
    element.getContext("2d")?.putImageData(new ImageData(bytes, side, side), 0, 0);
  }, [matrix, colorIndex, colors, size]);
  return (
    <canvas
      ref={canvas}
      class="matrix-thumb"
      style={{ width: `${size}px`, height: `${size}px` }}
      role="img"
      aria-label={label}
    />
  );
}
