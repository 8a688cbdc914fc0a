import type { ColorMap } from "./color_maps";
import { createPixels, type Matrix, rasterize, rasterizeBytes } from "./rasterize";
import type { SheetCell, SheetLayout } from "./sheet_layout";

/** What a thumbnail shows: a matrix, or one colour for one number. */
export interface Thumbnail extends SheetCell {
  readonly matrix: Matrix;
  /** Entry of the colour map of a value of the matrix; −1 leaves the cell empty. */
  readonly colorIndex: (value: number) => number;
  readonly colors: ColorMap;
}

export interface SheetColors {
  readonly label: string;
  readonly empty: string;
}

/** Draws all thumbnails on one canvas: a thousand heads are one image, not a thousand elements. */
export function drawSheet(
  canvas: HTMLCanvasElement,
  layout: SheetLayout,
  thumbnails: readonly Thumbnail[],
  rowLabels: readonly string[],
  colors: SheetColors,
  pixelRatio: number,
): void {
  const width = Math.max(1, Math.round(layout.width * pixelRatio));
  const height = Math.max(1, Math.round(layout.height * pixelRatio));
  canvas.width = width;
  canvas.height = height;
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  const context = canvas.getContext("2d");
  if (context === null) return;

  const pixels = createPixels(width, height);
  const side = Math.round(layout.size * pixelRatio);
  const colorOf = new Uint32Array(256);
  for (const thumbnail of thumbnails) {
    const { x, y } = layout.position(thumbnail);
    const { matrix } = thumbnail;
    if (matrix.rows === 0 || matrix.columns === 0) continue;
    const box = { x: Math.round(x * pixelRatio), y: Math.round(y * pixelRatio), width: side, height: side };
    const { values } = matrix;
    if (values instanceof Uint8Array) {
      for (let byte = 0; byte < 256; byte++) {
        const index = thumbnail.colorIndex(byte);
        colorOf[byte] = index < 0 ? 0 : (thumbnail.colors[index] ?? 0);
      }
      rasterizeBytes(pixels, box, { ...matrix, values }, colorOf);
      continue;
    }
    const whole = { x: 0, y: 0, width: matrix.columns, height: matrix.rows };
    rasterize(pixels, box, matrix, whole, thumbnail.colorIndex, thumbnail.colors);
  }
  context.putImageData(
    new ImageData(new Uint8ClampedArray(pixels.data.buffer as ArrayBuffer), width, height),
    0,
    0,
  );

  context.scale(pixelRatio, pixelRatio);
  context.font = "11px Roboto, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.fillStyle = colors.label;
  rowLabels.forEach((label, row) => {
    const { y } = layout.position({ row, column: 0 });
    context.fillText(label, layout.margin - 6, y + layout.size / 2, layout.margin - 6);
  });
  drawMissing(context, layout, thumbnails, colors.empty);
}

/** Heads without a map keep their place: a dashed frame. */
function drawMissing(
  context: CanvasRenderingContext2D,
  layout: SheetLayout,
  thumbnails: readonly Thumbnail[],
  color: string,
): void {
  const drawn = new Set(thumbnails.map(({ row, column }) => `${row} ${column}`));
  context.strokeStyle = color;
  context.setLineDash([2, 2]);
  layout.rowLengths.forEach((length, row) => {
    for (let column = 0; column < length; column++) {
      if (drawn.has(`${row} ${column}`)) continue;
      const { x, y } = layout.position({ row, column });
      context.strokeRect(x + 0.5, y + 0.5, layout.size - 1, layout.size - 1);
    }
  });
}
