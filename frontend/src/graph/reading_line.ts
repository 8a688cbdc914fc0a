import { lastAtMost } from "./last_at_most";
import type { Scene } from "./scene";

/** What a window shows of something long: its top and end, and where the window of a size stands. */
export interface Span {
  top: number;
  end: number;
  at: number;
  size: number;
}

/**
 * The line that is being read: from the top of what is shown to its end while the window goes from top to end. So
 * both ends of two things meet when each is shown at the other's line.
 */
export function readingLine({ top, end, at, size }: Span): number {
  const room = end - top - size;
  return room > 0 ? at + (size * (at - top)) / room : (top + end) / 2;
}

/** Where the window has to stand for a line to be the one that is being read. */
export function windowFor(line: number, { top, end, size }: Span): number {
  const room = Math.max(0, end - top - size);
  const share = end > top ? Math.max(0, Math.min(1, (line - top) / (end - top))) : 0;
  return top + room * share;
}

/**
 * Where each row of the outline begins in the drawing, and in the end where the drawing ends. What stands side by side
 * begins at one height; nothing begins above the row before it, so that the way back is as clear.
 */
export function rowTops(scene: Scene, rows: readonly number[]): Float32Array {
  const { tree } = scene;
  const tops = new Float32Array(rows.length + 1);
  const opened = new Map<number, { y: number; children: Int32Array; next: number }>();
  let above = scene.bounds().y;
  rows.forEach((node, index) => {
    const around = opened.get(tree.parent[node]!);
    let y = 0;
    if (around) {
      while (around.children[around.next]! < node) around.next++;
      y = around.y + (scene.layout(tree.parent[node]!)?.y[around.next] ?? 0);
    }
    if (scene.isOpen(node)) opened.set(node, { y, children: tree.children(node), next: 0 });
    // What is not drawn yet is where the row before it is.
    if (around) above = Math.max(above, y);
    tops[index] = above;
  });
  const { y, height } = scene.bounds();
  tops[rows.length] = Math.max(above, y + height);
  return tops;
}

/** The height of a row in the drawing; a part of a row lies as far on the way to the next. */
export function heightOf(row: number, tops: Float32Array): number {
  const last = tops.length - 2;
  const index = Math.max(0, Math.min(last, Math.floor(row)));
  const share = Math.max(0, Math.min(1, row - index));
  return tops[index]! + share * (tops[index + 1]! - tops[index]!);
}

/** The row at a height of the drawing: the way back of `heightOf`. */
export function rowAt(height: number, tops: Float32Array): number {
  const row = lastAtMost(tops, height, tops.length - 1);
  const length = tops[row + 1]! - tops[row]!;
  return row + (length > 0 ? Math.max(0, Math.min(1, (height - tops[row]!) / length)) : 0);
}
