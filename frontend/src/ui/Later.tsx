import { useSignal } from "@preact/signals";
import { type ComponentChild, type ComponentType, h } from "preact";
import { useEffect } from "preact/hooks";

const loaded = new WeakMap<object, unknown>();

/** A part of the page whose code is fetched when it is first shown. `load` must be the same function every time. */
export function Later<Props extends object>(props: {
  load: () => Promise<ComponentType<Props>>;
  with: Props;
  /** Shown until then. */
  fallback?: ComponentChild;
}) {
  const ready = useSignal(loaded.has(props.load));
  useEffect(() => {
    if (ready.value) return;
    void props.load().then((component) => {
      loaded.set(props.load, component);
      ready.value = true;
    });
  }, [props.load, ready]);
  if (!ready.value) return props.fallback ?? null;
  return h(loaded.get(props.load) as ComponentType<Props>, props.with);
}
