import { MOTION_MS } from "../ui/tokens";
import { Camera, overlaps, type Rect, union } from "./camera";
import { CanvasPen } from "./canvas_pen";
import { HEADER_HEIGHT } from "./card";
import type { SideName } from "./diff_tree";
import type { Look } from "./look";
import type { Minimap } from "./minimap";
import { paint } from "./painter";
import { PairingLine } from "./pairing_line";
import { listenToPointer } from "./pointer_input";
import type { Span } from "./reading_line";
import type { Place, Scene } from "./scene";

/**
 * What the pointer rests on: a closed node, a grip, or a point of the drawing with nothing but edges around it; `reach`
 * is how near they have to be.
 */
export type Pointed = { place: Place } | { grip: true } | { near: { x: number; y: number; reach: number } };

export interface GraphEvents {
  select(place: Place | null, additive: boolean): void;
  toggle(place: Place): void;
  hover(node: number): void;
  /** The reader moved or zoomed the picture. */
  moved(): void;
  /** A line was drawn from one module to another, to pair the two. */
  pair(from: Place, to: Place): void;
  /** What the pointer rests on, for a hint; null: nothing. The position is in the page. */
  hint(what: Pointed | null, x: number, y: number): void;
}

/** A node's place before and after, and where on the screen it begins and ends. */
interface Anchoring {
  from: Rect;
  to: Rect;
  startX: number;
  endX: number;
  pixelY: number;
}

/** What the minimap takes of the right edge, with a margin on both sides. */
const MINIMAP_ROOM = 126;
/** Pixels around an edge within which the pointer is on it. */
const EDGE_REACH = 5;
/** The minimap is loaded when the first picture has been complete for so long. */
const MINIMAP_DELAY_MS = 100;
/** Around a drawing that is shown from its top to its end, in pixels. */
const MARGIN = 24;
/** Text cannot be read when a drawing is shown smaller than this. */
const NARROW_SCALE = 0.55;

/** The graph on a canvas. It is told what to show and tells what was done to it. */
export class GraphView {
  readonly canvas = document.createElement("canvas");
  private readonly camera = new Camera();
  /** Loaded when the first picture is complete. */
  private minimap: Minimap | null = null;
  private readonly observer: ResizeObserver;
  private scene: Scene | null = null;
  private look: Look | null = null;
  private previous: Scene | null = null;
  private transition: {
    start: number;
    anchor: Anchoring | null;
  } | null = null;
  private frame = 0;
  private readonly pairing: PairingLine;
  private minimapDirty = true;
  private minimapAsked = false;
  private fitted = false;
  private disposed = false;

  constructor(
    container: HTMLElement,
    private readonly events: GraphEvents,
  ) {
    this.canvas.tabIndex = 0;
    this.canvas.className = "graph";
    this.canvas.setAttribute("role", "img");
    this.canvas.ariaBusy = "true";
    this.canvas.setAttribute(
      "aria-label",
      "Graph of the models. The outline beside it holds the same as a tree.",
    );
    container.append(this.canvas);
    this.pairing = new PairingLine(
      this.camera,
      () => this.scene,
      () => this.look,
    );
    listenToPointer(this.canvas, this.camera, {
      moved: () => {
        this.events.hint(null, 0, 0);
        this.events.moved();
        this.invalidate();
      },
      click: (x, y, event) => this.click(x, y, event),
      doubleClick: (x, y) => {
        const place = this.at(x, y);
        if (place) this.events.toggle(place);
      },
      hover: (x, y) => this.hover(x, y),
      leave: () => {
        if (this.pairing.isDrawn) return;
        this.events.hover(-1);
        this.events.hint(null, 0, 0);
      },
      grab: (x, y, event) => this.grab(x, y, event.pointerType === "touch"),
      drag: (x, y) => this.drag(x, y),
      drop: (x, y, isCancelled) => this.drop(x, y, isCancelled),
    });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(container);
  }

  /** Whether a drawing is so wide that fitting it would make it unreadable. */
  isTooNarrow(scene: Scene): boolean {
    return this.camera.width > 10 && scene.bounds().width * NARROW_SCALE > this.camera.width;
  }

  /**
   * Shows another state. `anchor` keeps its place on the screen while the rest makes room; when it is not under
   * the pointer, the drawing is centred sideways if it fits.
   */
  setScene(scene: Scene, anchor: Place | null = null, isPointed = true): void {
    const before = this.scene;
    this.scene = scene;
    this.minimapDirty = true;
    this.canvas.ariaBusy = "true";
    if (!before || before.tree !== scene.tree || before.arrangement !== scene.arrangement) {
      this.transition = null;
      this.previous = null;
      this.fitted = false;
      this.fit();
      return;
    }
    const from = anchor && before.rect(before.shown(anchor.node), anchor.side);
    const to = anchor && scene.rect(scene.shown(anchor.node), anchor.side);
    const { camera } = this;
    const visible = from && overlaps(from, camera.view());
    const bounds = scene.bounds();
    const centred = !isPointed && bounds.width * camera.scale <= camera.width;
    const motion = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : MOTION_MS;
    this.previous = before;
    this.transition = {
      start: performance.now() - (motion ? 0 : 1e6),
      anchor:
        from && to && visible
          ? {
              from,
              to,
              startX: (from.x - camera.x) * camera.scale,
              endX: centred
                ? (to.x - bounds.x - bounds.width / 2) * camera.scale + camera.width / 2
                : (from.x - camera.x) * camera.scale,
              pixelY: (from.y - camera.y) * camera.scale,
            }
          : null,
    };
    this.invalidate();
  }

  setLook(look: Look): void {
    // What is only selected or pointed at is not worth drawing the whole model again.
    this.minimapDirty ||= this.look?.picture !== look.picture;
    this.look = look;
    this.invalidate();
  }

  fit(): void {
    if (!this.scene || this.camera.width < 10 || this.camera.height < 10) return;
    this.camera.fit(this.scene.bounds(), MARGIN, 1.15, MINIMAP_ROOM);
    this.fitted = true;
    this.invalidate();
  }

  zoomTo(node: number, side: SideName): void {
    const rect = this.scene?.rect(this.scene.shown(node), side);
    if (!rect) return;
    const partner = this.scene!.rect(this.scene!.shown(node), side === "teacher" ? "student" : "teacher");
    this.camera.fit(partner ? union(rect, partner) : rect, 48, 1.5);
    this.invalidate();
  }

  /** Brings a node into view, moving as little as possible. */
  reveal(node: number, side: SideName): void {
    const rect = this.scene?.rect(this.scene.shown(node), side);
    if (!rect) return;
    const isOpen = this.scene!.isOpen(node);
    this.camera.reveal(isOpen ? { ...rect, height: Math.min(rect.height, HEADER_HEIGHT * 3) } : rect);
    this.invalidate();
  }

  /** What the window shows, in the drawing's coordinates. */
  visible(): Rect {
    return this.camera.view();
  }

  zoomBy(factor: number): void {
    this.camera.zoom(factor, this.camera.width / 2, this.camera.height / 2);
    this.events.moved();
    this.invalidate();
  }

  panBy(x: number, y: number): void {
    this.camera.pan(x, y);
    this.events.moved();
    this.invalidate();
  }

  /** The drawing's height and what the window shows of it, in the drawing's coordinates. */
  span(): Span {
    const { y, height } = this.scene?.bounds() ?? { y: 0, height: 0 };
    const margin = MARGIN / this.camera.scale;
    const { y: at, height: size } = this.camera.view();
    return { top: y - margin, end: y + height + margin, at, size };
  }

  /** Pixels of a unit of the drawing. */
  get scale(): number {
    return this.camera.scale;
  }

  /** Where to look sideways to see a node: as now when any of it is in view. */
  across(node: number): number {
    const { x, width } = this.camera.view();
    const places = this.scene ? this.scene.drawings.map((side) => this.scene!.rect(node, side)) : [];
    const rects = places.filter((rect) => rect !== null);
    if (!rects.length || rects.some((rect) => rect.x < x + width && rect.x + rect.width > x)) return x;
    return rects[0]!.x + rects[0]!.width / 2 - width / 2;
  }

  /** Moves the window; a drawing that is seen from its top to its end stays at its height. */
  scrollTo(x: number, y: number): void {
    const { top, end, size } = this.span();
    this.camera.x = x;
    if (end - top > size) this.camera.y = y;
    this.invalidate();
  }

  dispose(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.canvas.remove();
    this.minimap?.canvas.remove();
    this.disposed = true;
  }

  invalidate(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const { scene, look, camera, canvas } = this;
    if (!scene || !look || camera.width < 10 || camera.height < 10) return;
    let progress = 1;
    if (this.transition) {
      const t = Math.min(1, (performance.now() - this.transition.start) / MOTION_MS);
      progress = 1 - (1 - t) ** 3;
      const { anchor } = this.transition;
      if (anchor) {
        const at = (a: number, b: number) => a + (b - a) * progress;
        camera.x = at(anchor.from.x, anchor.to.x) - at(anchor.startX, anchor.endX) / camera.scale;
        camera.y = at(anchor.from.y, anchor.to.y) - anchor.pixelY / camera.scale;
      }
      if (t >= 1) {
        this.transition = null;
        this.previous = null;
      } else this.invalidate();
    }
    const context = canvas.getContext("2d")!;
    const ratio = window.devicePixelRatio || 1;
    const scale = camera.scale * ratio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = look.palette.page;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.setTransform(scale, 0, 0, scale, -camera.x * scale, -camera.y * scale);
    const pen = new CanvasPen(context);
    paint(pen, scene, look, camera.view(), camera.scale, this.previous, progress);
    this.pairing.draw(pen, scene, look);
    if (this.minimap && this.minimapDirty && progress >= 1) {
      this.minimap.render(scene, look);
      this.minimapDirty = false;
    }
    this.minimap?.showView(camera.view(), scene.bounds(), look.palette, camera.width);
    if (progress < 1) return;
    // The picture is complete: for screen readers, and for whoever waits for it.
    canvas.dataset.open = String(scene.openCount);
    canvas.ariaBusy = "false";
    if (this.minimapAsked) return;
    this.minimapAsked = true;
    setTimeout(() => void this.addMinimap(), MINIMAP_DELAY_MS);
  }

  private async addMinimap(): Promise<void> {
    const { Minimap } = await import("./minimap");
    if (this.disposed) return;
    const { camera } = this;
    this.minimap = new Minimap((x, y) => {
      camera.x = x - camera.width / camera.scale / 2;
      camera.y = y - camera.height / camera.scale / 2;
      this.events.moved();
      this.invalidate();
    });
    this.canvas.after(this.minimap.canvas);
    this.invalidate();
  }

  private resize(): void {
    const box = this.canvas.parentElement!.getBoundingClientRect();
    if (box.width < 10 || box.height < 10) return; // hidden tab
    const ratio = window.devicePixelRatio || 1;
    const { camera } = this;
    // What is in the middle stays in the middle.
    camera.x += (camera.width - box.width) / 2 / camera.scale;
    camera.width = box.width;
    camera.height = box.height;
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    if (!this.fitted) this.fit();
    cancelAnimationFrame(this.frame);
    this.draw();
  }

  private at(pixelX: number, pixelY: number): Place | null {
    return this.scene?.hit(...this.camera.toWorld(pixelX, pixelY)) ?? null;
  }

  private click(x: number, y: number, event: PointerEvent): void {
    this.canvas.focus({ preventScroll: true });
    const place = this.at(x, y);
    if (place && this.scene && this.onChevron(place, x, y)) {
      this.events.toggle(place);
      return;
    }
    this.events.select(place, event.ctrlKey || event.metaKey || event.shiftKey);
  }

  private onChevron({ node, side }: Place, pixelX: number, pixelY: number): boolean {
    const scene = this.scene!;
    if (!scene.tree.isExpandable(node)) return false;
    const rect = scene.rect(node, side);
    if (!rect) return false;
    const [x, y] = this.camera.toWorld(pixelX, pixelY);
    if (scene.isOpen(node)) return x < rect.x + 24 && y < rect.y + HEADER_HEIGHT;
    return x > rect.x + rect.width - 24;
  }

  private grab(x: number, y: number, isTouch: boolean): boolean {
    if (!this.pairing.begin(x, y, isTouch)) return false;
    this.events.hint(null, 0, 0);
    return true;
  }

  private drag(x: number, y: number): void {
    this.canvas.style.cursor = this.pairing.move(x, y) ? "copy" : "crosshair";
    this.invalidate();
  }

  private drop(x: number, y: number, isCancelled: boolean): void {
    this.pairing.move(x, y);
    const ends = this.pairing.end();
    this.invalidate();
    if (ends && !isCancelled) this.events.pair(ends.from, ends.to);
  }

  /** Gives up a line that is being drawn; false when there is none. */
  cancelPairing(): boolean {
    const had = this.pairing.isDrawn;
    this.pairing.end();
    this.invalidate();
    return had;
  }

  private hover(x: number, y: number): void {
    if (this.pairing.isOnGrip(x, y)) {
      this.canvas.style.cursor = "crosshair";
      const box = this.canvas.getBoundingClientRect();
      this.events.hint({ grip: true }, box.left + x, box.top + y);
      return;
    }
    const place = this.at(x, y);
    this.events.hover(place?.node ?? -1);
    const box = this.canvas.getBoundingClientRect();
    this.canvas.style.cursor = place ? "pointer" : "grab";
    const [worldX, worldY] = this.camera.toWorld(x, y);
    const closed = place && !this.scene?.isOpen(place.node);
    const near = { x: worldX, y: worldY, reach: EDGE_REACH / this.camera.scale };
    this.events.hint(closed ? { place } : { near }, box.left + x, box.top + y);
  }
}
