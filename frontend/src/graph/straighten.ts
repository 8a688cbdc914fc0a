import type { LevelSpec } from "./level_layout";

/** The parts of a drawing that are moved here. Positions are of middles. */
interface Drawing {
  x: Float32Array;
  y: Float32Array;
  routes: (number[] | null)[];
  labels: ([number, number] | null)[];
}

const SIDE_BY_SIDE = 10;

/**
 * Puts each port that serves one child straight above or below it, where nothing is in the way. A layered
 * drawing places ports as if they were nodes and leaves bends that mean nothing.
 */
export function straightenPorts(spec: LevelSpec, w: Float32Array, h: Float32Array, drawing: Drawing): void {
  const children = spec.widths.length;
  const { x, y } = drawing;
  for (let port = children; port < w.length; port++) {
    const isIn = port < children + spec.inPorts;
    const own: number[] = [];
    for (let edge = 0; edge < spec.from.length; edge++) {
      if ((isIn ? spec.from : spec.to)[edge] === port) own.push(edge);
    }
    const edge = own[0];
    if (own.length !== 1 || edge === undefined) continue;
    const child = (isIn ? spec.to : spec.from)[edge]!;
    if (child >= children || isShared(child, edge, isIn) || !isFree(port, child)) continue;
    x[port] = x[child]!;
    const childEnd = y[child]! + (isIn ? -h[child]! : h[child]!) / 2;
    const portEnd = y[port]! + (isIn ? h[port]! : -h[port]!) / 2;
    const line = [x[port]!, portEnd, x[port]!, childEnd];
    drawing.routes[edge] = isIn ? line : [line[2]!, line[3]!, line[0]!, line[1]!];
    if (drawing.labels[edge]) drawing.labels[edge] = [x[port]!, (portEnd + childEnd) / 2];
  }

  /** Whether the child has a second line at that end; both straight up would lie on each other. */
  function isShared(child: number, edge: number, isIn: boolean): boolean {
    return (isIn ? spec.to : spec.from).some((end, other) => end === child && other !== edge);
  }

  function isFree(port: number, child: number): boolean {
    const low = Math.min(y[port]!, y[child]!);
    const high = Math.max(y[port]!, y[child]!);
    for (let other = 0; other < w.length; other++) {
      if (other === port || other === child) continue;
      const isPort = other >= children;
      if (isPort && Math.abs(y[other]! - y[port]!) > 1) continue;
      const inBand = isPort || (y[other]! + h[other]! / 2 > low && y[other]! - h[other]! / 2 < high);
      const reach = (w[other]! + (isPort ? w[port]! : 0)) / 2 + SIDE_BY_SIDE;
      if (inBand && Math.abs(x[other]! - x[child]!) < reach) return false;
    }
    // Lines that pass here were routed around other children; crossing one is no harm.
    return true;
  }
}
