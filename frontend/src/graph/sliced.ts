/** Work that pauses wherever it yields, so that a page with a large model stays responsive. */
export type Sliced<T> = Generator<void, T, void>;

/** The main thread is given back after this long; a task of 50 ms is one that people notice. */
const SLICE_MS = 10;

/** Does all of it at once: for small models, and for tests. */
export function finishNow<T>(work: Sliced<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** Does the work in slices. What is done within the first slice needs no other task. Aborting ends it with an error. */
export async function finishSliced<T>(work: Sliced<T>, signal?: AbortSignal): Promise<T> {
  for (;;) {
    const end = performance.now() + SLICE_MS;
    do {
      const { done, value } = work.next();
      if (done) return value;
    } while (performance.now() < end);
    await otherTasks();
    signal?.throwIfAborted();
  }
}

/** Lets clicks, frames and timers have their turn. Timers would wait four milliseconds each; messages do not. */
export function otherTasks(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
