import { type HashValues, readHash, writeHash } from "./hash";

/** The window whose address the user sees: TensorBoard's, or our own when the page stands alone. */
function addressWindow(): Window {
  try {
    void window.parent.location.hash;
    return window.parent;
  } catch {
    return window; // another origin embeds us
  }
}

/** The state of a tab in the address bar; copying the address shows a colleague the same picture. */
export class LocationState {
  private readonly target = addressWindow();

  constructor(private readonly plugin: string) {}

  read(): HashValues {
    return readHash(this.target.location.hash, this.plugin);
  }

  /** Replaces the tab's values without a history entry and without waking TensorBoard's router. */
  write(values: HashValues): void {
    const { location, history } = this.target;
    // While another tab is shown the address is not ours to write.
    const shown = location.hash.replace(/^#/, "").split("&")[0] ?? "";
    if (shown && shown !== this.plugin && !shown.includes("=")) return;
    const hash = writeHash(location.hash, this.plugin, values);
    if (hash !== location.hash) {
      history.replaceState(history.state, "", location.pathname + location.search + hash);
    }
  }

  /** Calls `listener` when the user edits the address or goes back and forward. */
  onChange(listener: (values: HashValues) => void): () => void {
    const handle = () => listener(this.read());
    this.target.addEventListener("hashchange", handle);
    return () => this.target.removeEventListener("hashchange", handle);
  }

  /** Shows another tab with the given values, as a step that "back" undoes. */
  goTo(plugin: string, values: HashValues): void {
    this.target.location.hash = writeHash(this.target.location.hash, plugin, values);
  }
}
