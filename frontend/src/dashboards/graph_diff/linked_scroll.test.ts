import { beforeEach, describe, expect, it, vi } from "vitest";
import { buildSingleTree } from "../../graph/build_tree";
import type { GraphView } from "../../graph/graph_view";
import { LayoutPlan } from "../../graph/layout_plan";
import { layoutLevel } from "../../graph/level_layout";
import { Scene } from "../../graph/scene";
import { residualModel } from "../../graph/tiny_model";
import { LinkedScroll, type Scroller } from "./linked_scroll";

const tree = buildSingleTree(residualModel());
const plan = new LayoutPlan(tree, "side by side");
const specs = plan.specsOf(() => true);
for (const spec of plan.missing(specs.values())) {
  plan.layouts.set(
    spec.id,
    layoutLevel(spec, (id) => plan.layouts.get(id)!),
  );
}
const scene = new Scene(plan, specs);
const rows = Array.from({ length: tree.count }, (_, node) => node);
const { y: top, height } = scene.bounds();

/** A graph whose window shows a fifth of it. */
function graph() {
  const window = { at: top, size: height / 5 };
  const view = {
    scale: 1,
    span: () => ({ top, end: top + height, ...window }),
    across: () => 0,
    visible: () => ({ x: 0, y: window.at, width: 100, height: window.size }),
    scrollTo: (_: number, y: number) => {
      window.at = y;
    },
  };
  return { window, view: view as unknown as GraphView };
}

describe("outline and graph", () => {
  let isOn = true;
  let link: LinkedScroll;
  let outline: Scroller;
  let shown: ReturnType<typeof graph>;
  const lowest = () => rows.length * 24 - outline.clientHeight;

  beforeEach(() => {
    vi.useFakeTimers({
      toFake: ["requestAnimationFrame", "cancelAnimationFrame", "setTimeout", "clearTimeout"],
    });
    isOn = true;
    outline = { scrollTop: 0, clientHeight: 48 };
    shown = graph();
    link = new LinkedScroll({ outline, rows, view: shown.view, scene }, () => isOn);
  });

  it("end together when the outline is scrolled to its end, in steps", () => {
    outline.scrollTop = lowest();
    link.outlineScrolled();
    expect(shown.window.at).toBeLessThan(top + 0.5 * height);
    vi.advanceTimersByTime(1000);
    expect(Math.abs(shown.window.at - (top + 0.8 * height))).toBeLessThan(1);
  });

  it("end together when the graph is moved to its end, and the outline's own event leads nothing", () => {
    shown.window.at = top + 0.8 * height;
    link.graphMoved();
    vi.advanceTimersByTime(100);
    expect(outline.scrollTop).toBe(0);
    vi.advanceTimersByTime(1000);
    expect(Math.abs(outline.scrollTop - lowest())).toBeLessThan(2);
    link.outlineScrolled();
    vi.advanceTimersByTime(1000);
    expect(shown.window.at).toBe(top + 0.8 * height);
  });

  it("go apart when that is wished, and when the outline moves to what was selected", () => {
    link.putOutline(100);
    link.outlineScrolled();
    isOn = false;
    outline.scrollTop = lowest();
    link.outlineScrolled();
    vi.advanceTimersByTime(1000);
    expect(shown.window.at).toBe(top);
  });
});
