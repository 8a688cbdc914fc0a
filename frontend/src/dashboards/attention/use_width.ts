import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The width of an element in CSS pixels, followed as it changes; 0 until it is known. */
export function useWidth<T extends HTMLElement>() {
  const element = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) return;
    setWidth(target.clientWidth);
    const observer = new ResizeObserver(() => {
      // A hidden tab has no width; what was drawn stays.
      if (target.clientWidth > 0) setWidth(target.clientWidth);
    });
    observer.observe(target);
    return () => observer.disconnect();
  }, []);
  return { element, width };
}
