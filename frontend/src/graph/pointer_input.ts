import type { Camera } from "./camera";

export interface PointerActions {
  /** The camera moved. */
  moved(): void;
  click(x: number, y: number, event: PointerEvent): void;
  doubleClick(x: number, y: number): void;
  hover(x: number, y: number): void;
  leave(): void;
  /** Whether a press takes hold of something; then the drag moves that, and not the picture. */
  grab(x: number, y: number, event: PointerEvent): boolean;
  drag(x: number, y: number): void;
  /** The end of such a drag; `isCancelled` when it shall have no effect. */
  drop(x: number, y: number, isCancelled: boolean): void;
}

/** A press that moves less than this is a click. */
const CLICK_PIXELS = 4;
const DOUBLE_CLICK_MS = 350;

/**
 * Mouse, trackpad and touch on the graph: a drag pans, or moves what it took hold of; wheel and pinch zoom, two
 * fingers on a trackpad pan.
 */
export function listenToPointer(canvas: HTMLCanvasElement, camera: Camera, actions: PointerActions): void {
  const pointers = new Map<number, { x: number; y: number }>();
  let start: { x: number; y: number } | null = null;
  let dragging = false;
  let grabbed = false;
  let lastClick = { time: 0, x: 0, y: 0 };
  const local = (event: MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 1) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, local(event));
    start = local(event);
    dragging = false;
    if (pointers.size === 1) grabbed = actions.grab(start.x, start.y, event);
    else if (grabbed) {
      grabbed = false;
      actions.drop(start.x, start.y, true);
    }
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = local(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      actions.hover(now.x, now.y);
      return;
    }
    if (grabbed) {
      dragging = true;
      actions.drag(now.x, now.y);
    } else if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)![1];
      const spread = (a: { x: number; y: number }) => Math.hypot(a.x - other.x, a.y - other.y) || 1;
      camera.zoom(spread(now) / spread(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
      camera.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
      dragging = true;
      actions.moved();
    } else if (start && (dragging || Math.hypot(now.x - start.x, now.y - start.y) > CLICK_PIXELS)) {
      dragging = true;
      canvas.style.cursor = "grabbing";
      camera.pan(now.x - before.x, now.y - before.y);
      actions.moved();
    }
    pointers.set(event.pointerId, now);
  });
  const release = (event: PointerEvent) => {
    const wasDown = pointers.delete(event.pointerId);
    canvas.style.cursor = "";
    if (wasDown && grabbed) {
      grabbed = false;
      const { x, y } = local(event);
      actions.drop(x, y, event.type === "pointercancel");
    }
    if (!wasDown || dragging || event.type === "pointercancel") return;
    const { x, y } = local(event);
    const isDouble =
      event.timeStamp - lastClick.time < DOUBLE_CLICK_MS && Math.hypot(x - lastClick.x, y - lastClick.y) < 6;
    lastClick = { time: isDouble ? 0 : event.timeStamp, x, y };
    if (isDouble) actions.doubleClick(x, y);
    else actions.click(x, y, event);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => actions.leave());

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const { x, y } = local(event);
      // A mouse wheel comes in lines or in large whole steps without sideways part; a trackpad does not.
      const isWheel =
        event.deltaMode !== 0 ||
        (event.deltaX === 0 && Math.abs(event.deltaY) >= 50 && event.deltaY % 1 === 0);
      if (event.ctrlKey || event.metaKey) camera.zoom(Math.exp(-event.deltaY * 0.01), x, y);
      else if (event.shiftKey && isWheel) camera.pan(-event.deltaY, 0);
      else if (isWheel) camera.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, x, y);
      else camera.pan(-event.deltaX, -event.deltaY);
      actions.moved();
    },
    { passive: false },
  );
}
