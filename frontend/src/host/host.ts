import { effect, type ReadonlySignal } from "@preact/signals";
import { HostChannel } from "./bootstrap";
import { LocationState } from "./location";
import { watchDark } from "./theme";
import { watchVisibility } from "./visibility";

/** All that a tab knows of the TensorBoard around it. */
export interface Host {
  readonly plugin: string;
  readonly location: LocationState;
  readonly dark: ReadonlySignal<boolean>;
  readonly visible: ReadonlySignal<boolean>;
  /** Calls `listener` when data was reloaded; deferred until the tab is shown. */
  onReload(listener: () => void): () => void;
}

/** Connects to TensorBoard and completes the bare document that it gives a tab. */
export function connectHost(plugin: string, title: string): Host {
  document.documentElement.lang = "en";
  document.title = title;
  const viewport = document.createElement("meta");
  viewport.name = "viewport";
  viewport.content = "width=device-width, initial-scale=1";
  document.head.append(viewport);

  const channel = new HostChannel();
  const visible = watchVisibility();
  return {
    plugin,
    location: new LocationState(plugin),
    dark: watchDark(),
    visible,
    onReload(listener) {
      let missed = false;
      const stopListening = channel.on("experimental.DataReloaded", () => {
        if (visible.peek()) listener();
        else missed = true;
      });
      const stopWatching = effect(() => {
        if (visible.value && missed) {
          missed = false;
          listener();
        }
      });
      return () => {
        stopListening();
        stopWatching();
      };
    },
  };
}
