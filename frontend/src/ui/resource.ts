import { type Signal, signal } from "@preact/signals";

/** Where a piece of data is. While it is loaded again the last value stays, so that nothing flickers. */
export interface ResourceState<T> {
  status: "idle" | "loading" | "ready" | "failed";
  /** What is being done, for the user: "Reading the teacher …". */
  what: string;
  value?: T | undefined;
  error?: Error | undefined;
}

/** Something fetched: at most one request at a time, the newest wins. */
export class Resource<T> {
  readonly state: Signal<ResourceState<T>> = signal({ status: "idle", what: "" });
  private controller: AbortController | null = null;

  get value(): T | undefined {
    return this.state.value.value;
  }

  async load(what: string, get: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.controller?.abort();
    const controller = new AbortController();
    this.controller = controller;
    this.state.value = { status: "loading", what, value: this.state.peek().value };
    try {
      const value = await get(controller.signal);
      if (!controller.signal.aborted) this.state.value = { status: "ready", what, value };
    } catch (error) {
      if (controller.signal.aborted) return;
      this.state.value = { status: "failed", what, error: error as Error, value: this.state.peek().value };
    }
  }

  /** Stops the request; what was there before is shown again. */
  cancel(): void {
    this.controller?.abort();
    const { what, value } = this.state.peek();
    this.state.value =
      value === undefined
        ? { status: "failed", what, error: new Error("Cancelled.") }
        : { status: "ready", what, value };
  }

  clear(): void {
    this.controller?.abort();
    this.state.value = { status: "idle", what: "" };
  }
}
