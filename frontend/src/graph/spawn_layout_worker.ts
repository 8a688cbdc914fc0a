/** Starts the layout worker from its own file. TensorBoard's policy forbids workers from blobs. */
export function spawnLayoutWorker(): Worker {
  return new Worker(new URL("../workers/layout.worker.ts", import.meta.url), { type: "module" });
}
