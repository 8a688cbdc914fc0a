import InlineWorker from "../workers/layout.worker.ts?worker&inline";

/** Starts the layout worker from within the page: a report is one file. Takes the other module's place there. */
export function spawnLayoutWorker(): Worker {
  return new InlineWorker();
}
