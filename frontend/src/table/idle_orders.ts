import type { TableColumn } from "./columns";
import type { TableModel } from "./table_model";

/** Tables below this size are sorted in a few milliseconds anyway. */
const WORTH_PREPARING = 5_000;
const MILLISECONDS_A_SLICE = 6;

/**
 * Puts a large table in the order of each column while the page is idle, so that a click on a header finds the order
 * ready. Returns a function that stops it.
 */
export function prepareOrders(model: TableModel, columns: readonly TableColumn[]): () => void {
  if (model.rowCount < WORTH_PREPARING) return () => {};
  let work = model.prepareOrder(columns[0]);
  let next = 1;
  let stopped = false;
  const slice = (deadline?: IdleDeadline) => {
    if (stopped) return;
    const end = performance.now() + Math.min(deadline?.timeRemaining() ?? MILLISECONDS_A_SLICE, 50);
    do {
      if (!work.next().done) continue;
      if (next >= columns.length) return;
      work = model.prepareOrder(columns[next++]);
    } while (performance.now() < end);
    later(slice);
  };
  later(slice);
  return () => {
    stopped = true;
  };
}

function later(callback: (deadline?: IdleDeadline) => void): void {
  if (typeof requestIdleCallback === "function") requestIdleCallback(callback, { timeout: 500 });
  else setTimeout(callback, 10);
}
