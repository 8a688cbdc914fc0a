/**
 * TensorBoard's plugin protocol: JSON strings `{type, id, payload, error, isReply}` over a MessagePort that
 * the page offers to its parent. There is no acknowledgement, and a page opened on its own gets no answer at
 * all, so every question has a time limit.
 */
interface Message {
  type: string;
  id: number;
  payload: unknown;
  error: string | null;
  isReply: boolean;
}

type Listener = (payload: unknown) => void;

export class HostChannel {
  private readonly port: MessagePort;
  private readonly pending = new Map<number, (payload: unknown) => void>();
  private readonly listeners = new Map<string, Set<Listener>>();
  private nextId = 0;

  constructor(parent: Pick<Window, "postMessage"> = window.parent) {
    const channel = new MessageChannel();
    this.port = channel.port1;
    this.port.onmessage = (event) => this.receive(JSON.parse(event.data) as Message);
    parent.postMessage("experimental.bootstrap", "*", [channel.port2]);
  }

  /** Asks TensorBoard; undefined when it does not answer in time. */
  ask(type: string, payload: unknown = null, limitMs = 1000): Promise<unknown> {
    const id = this.nextId++;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.pending.delete(id);
        resolve(undefined);
      }, limitMs);
      this.pending.set(id, (answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
      this.send({ type, id, payload, error: null, isReply: false });
    });
  }

  /** Calls `listener` for each event of a type, e.g. "experimental.DataReloaded"; returns the way to stop. */
  on(type: string, listener: Listener): () => void {
    const set = this.listeners.get(type) ?? new Set();
    this.listeners.set(type, set.add(listener));
    return () => set.delete(listener);
  }

  private receive(message: Message): void {
    if (message.isReply) {
      this.pending.get(message.id)?.(message.payload);
      this.pending.delete(message.id);
      return;
    }
    for (const listener of this.listeners.get(message.type) ?? []) listener(message.payload);
    this.send({ type: message.type, id: message.id, payload: null, error: null, isReply: true });
  }

  private send(message: Message): void {
    this.port.postMessage(JSON.stringify(message));
  }
}
