import { Camera, type Rect } from "./camera";
import { CanvasPen } from "./canvas_pen";
import type { Look } from "./look";
import { paint } from "./painter";
import type { Scene } from "./scene";

/** At most; `MINIMAP_ROOM` is left free for it. */
const WIDTH = 110;
const HEIGHT = 150;
/** A narrower picture needs all of its width. */
const NARROW_PANE = 480;

/** The whole picture, small, with a frame around what is visible. Drag the frame to move. */
export class Minimap {
  readonly canvas = document.createElement("canvas");
  private readonly picture = document.createElement("canvas");
  private readonly camera = new Camera();

  constructor(private readonly moveTo: (x: number, y: number) => void) {
    this.canvas.className = "minimap";
    this.canvas.setAttribute("aria-hidden", "true");
    this.canvas.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      this.canvas.setPointerCapture(event.pointerId);
      this.move(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) this.move(event);
    });
  }

  /** Redraws the picture; only needed when the scene or its colours changed. */
  render(scene: Scene, look: Look): void {
    const bounds = scene.bounds();
    const scale = Math.min(WIDTH / bounds.width, HEIGHT / bounds.height);
    const width = Math.max(40, Math.ceil(bounds.width * scale));
    const height = Math.max(40, Math.ceil(bounds.height * scale));
    this.camera.width = width;
    this.camera.height = height;
    this.camera.scale = scale;
    this.camera.x = bounds.x + bounds.width / 2 - width / scale / 2;
    this.camera.y = bounds.y + bounds.height / 2 - height / scale / 2;
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.picture.getContext("2d")!;
    context.setTransform(
      scale * ratio,
      0,
      0,
      scale * ratio,
      -this.camera.x * scale * ratio,
      -this.camera.y * scale * ratio,
    );
    // Only kinds and places: what is selected is seen in the picture itself.
    const plain = { ...look, selected: -1, marked: -1, hovered: -1, canPair: false };
    paint(new CanvasPen(context), scene, plain, bounds, scale);
  }

  /** Draws the frame; hidden when everything is visible anyway, and where it would cover the picture. */
  showView(view: Rect, bounds: Rect, palette: Look["palette"], paneWidth: number): void {
    const all = view.width >= bounds.width && view.height >= bounds.height;
    const isHidden = all || paneWidth < NARROW_PANE;
    this.canvas.style.visibility = isHidden ? "hidden" : "visible";
    if (isHidden) return;
    const context = this.canvas.getContext("2d")!;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.panel;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { scale, x, y } = this.camera;
    const left = Math.max(1, (view.x - x) * scale);
    const top = Math.max(1, (view.y - y) * scale);
    const right = Math.min(this.camera.width - 1, (view.x + view.width - x) * scale);
    const bottom = Math.min(this.camera.height - 1, (view.y + view.height - y) * scale);
    context.strokeStyle = palette.focus;
    context.lineWidth = 2;
    context.strokeRect(left, top, Math.max(6, right - left), Math.max(6, bottom - top));
  }

  private move(event: PointerEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.camera.toWorld(event.clientX - box.left, event.clientY - box.top);
    this.moveTo(x, y);
  }
}
