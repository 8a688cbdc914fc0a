import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";

const STEP = 24;
const NARROWEST = 220;

/** A draggable border; it sets a custom property on its parent. Arrow keys move it too. */
export function Splitter({ label, property }: { label: string; property: string }) {
  const bar = useRef<HTMLDivElement>(null);
  const percent = useSignal(34);
  const set = (pixels: number) => {
    const parent = bar.current!.parentElement!;
    const width = Math.max(NARROWEST, Math.min(pixels, parent.clientWidth - 420));
    parent.style.setProperty(property, `${width}px`);
    percent.value = Math.round((100 * width) / parent.clientWidth);
  };
  const current = () =>
    bar.current!.getBoundingClientRect().left - bar.current!.parentElement!.getBoundingClientRect().left;
  return (
    <div
      ref={bar}
      class="splitter"
      role="separator"
      aria-orientation="vertical"
      aria-label={label}
      aria-valuenow={percent.value}
      tabIndex={0}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => {
        if (event.buttons) set(event.clientX - bar.current!.parentElement!.getBoundingClientRect().left);
      }}
      onKeyDown={(event) => {
        if (event.key === "ArrowLeft") set(current() - STEP);
        if (event.key === "ArrowRight") set(current() + STEP);
      }}
    />
  );
}
