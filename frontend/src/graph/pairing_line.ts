import type { Camera } from "./camera";
import type { Look } from "./look";
import { paintPairing } from "./painter";
import { canPair, GRIP_REACH, GRIP_REACH_TOUCH, gripOf } from "./pair_grip";
import type { Pen } from "./pen";
import type { Place, Scene } from "./scene";

/** The line that is drawn from a module to the one that it shall be paired with. Points are in pixels of the canvas. */
export class PairingLine {
  private line: { from: Place; to: Place | null; x: number; y: number } | null = null;

  constructor(
    private readonly camera: Camera,
    private readonly scene: () => Scene | null,
    private readonly look: () => Look | null,
  ) {}

  get isDrawn(): boolean {
    return this.line !== null;
  }

  isOnGrip(x: number, y: number): boolean {
    return this.gripAt(x, y, GRIP_REACH) !== null;
  }

  /** Whether a press takes hold of a grip. */
  begin(x: number, y: number, isTouch: boolean): boolean {
    const from = this.gripAt(x, y, isTouch ? GRIP_REACH_TOUCH : GRIP_REACH);
    if (from) this.line = { from, to: null, x, y };
    return from !== null;
  }

  /** Moves the loose end; whether it is at something that can be paired. */
  move(x: number, y: number): boolean {
    const { line } = this;
    const scene = this.scene();
    if (!line || !scene) return false;
    const to = scene.hit(...this.camera.toWorld(x, y));
    Object.assign(line, { x, y, to: to && canPair(scene, line.from, to) ? to : null });
    return line.to !== null;
  }

  /** Lets go; the two ends when both are at something. */
  end(): { from: Place; to: Place } | null {
    const { line } = this;
    this.line = null;
    return line?.to ? { from: line.from, to: line.to } : null;
  }

  draw(pen: Pen, scene: Scene, look: Look): void {
    const { line, camera } = this;
    const from = line && gripOf(scene, line.from);
    if (!from) return;
    const [x, y] = camera.toWorld(line.x, line.y);
    const target = line.to && scene.rect(line.to.node, line.to.side);
    paintPairing(pen, look, from, { x, y }, target, camera.scale);
  }

  /** The grip under a point: of the module that is pointed at or selected. */
  private gripAt(x: number, y: number, reach: number): Place | null {
    const { camera } = this;
    const [scene, look] = [this.scene(), this.look()];
    if (!scene || !look?.canPair) return null;
    for (const node of new Set([look.hovered, look.selected])) {
      for (const side of ["teacher", "student"] as const) {
        const grip = gripOf(scene, { node, side });
        if (!grip) continue;
        const [gripX, gripY] = [(grip.x - camera.x) * camera.scale, (grip.y - camera.y) * camera.scale];
        if (Math.hypot(gripX - x, gripY - y) <= reach) return { node, side };
      }
    }
    return null;
  }
}
