import { describe, expect, it } from "vitest";
import { PairKind } from "../gen/tb_plugin_structure/v1/alignment_pb";
import { palette } from "../ui/tokens";
import { buildSingleTree, buildTree } from "./build_tree";
import { Painting } from "./colouring";
import { KindCounts } from "./kind_counts";
import { LayoutPlan } from "./layout_plan";
import { layoutLevel } from "./level_layout";
import type { Look } from "./look";
import { KeyIndex } from "./node_key";
import { paint } from "./painter";
import { Scene } from "./scene";
import { SvgPen } from "./svg_pen";
import { residualModel, stackedModel, tinyAlignment, tinyModel } from "./tiny_model";

const tree = buildSingleTree(residualModel());
const keys = new KeyIndex(tree);

function sceneOf(of: typeof tree, isOpen: (node: number) => boolean): Scene {
  const plan = new LayoutPlan(of, "side by side");
  const specs = plan.specsOf(isOpen);
  for (const spec of plan.missing(specs.values())) {
    plan.layouts.set(
      spec.id,
      layoutLevel(spec, (id) => plan.layouts.get(id)!),
    );
  }
  return new Scene(plan, specs);
}

function drawing(scene: Scene, scale = 1): string {
  const painting = new Painting(scene.tree, palette(false), "kind");
  const look: Look = {
    picture: {},
    palette: palette(false),
    selected: -1,
    marked: -1,
    hovered: -1,
    isFaint: () => false,
    isMatch: () => false,
    colour: (node, side) => painting.colour(node, side),
    counts: new KindCounts(scene.tree),
    canPair: false,
    weighEdges: false,
  };
  const pen = new SvgPen();
  paint(pen, scene, look, scene.bounds(), scale);
  return pen.document(0, 0, 1, 1, "#fff");
}

const texts = (svg: string) => [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);

describe("the picture", () => {
  it("names closed modules, inputs, outputs and the shapes that flow", () => {
    const shown = texts(drawing(sceneOf(tree, (node) => node === 0)));
    for (const text of ["stem", "Conv2d", "block", "head", "input", "output", "1×8×16×16"])
      expect(shown).toContain(text);
    expect(shown).not.toContain("conv");
  });

  it("shows what is in an opened module", () => {
    const shown = texts(drawing(sceneOf(tree, () => true)));
    for (const text of ["conv", "drop", "+"]) expect(shown).toContain(text);
  });

  it("shows what only the other model has grouped", () => {
    const chain = (names: string[]) =>
      tinyModel(
        "net",
        [
          { path: "", type: "Net", parent: -1, operators: [0, 2], inputs: [0], outputs: [2] },
          ...names.map((path) => ({
            path,
            type: path === "body" ? "Sequential" : "Linear",
            parent: path.startsWith("body.") ? 1 : 0,
            operators: (path === "body" ? [0, 2] : path.endsWith("a") ? [0, 1] : [1, 2]) as [number, number],
            inputs: [path.endsWith("b") ? 1 : 0],
            outputs: [path.endsWith("a") ? 1 : 2],
          })),
        ],
        [
          { name: "linear", call: names.length - 1, inputs: [0], output: 1 },
          { name: "linear", call: names.length, inputs: [1], output: 2 },
        ],
        [
          [2, 8],
          [2, 16],
          [2, 24],
        ],
      );
    const { RESIZED, INSERTED, IDENTICAL } = PairKind;
    const pairs = tinyAlignment(
      [
        [0, 0, -1, RESIZED],
        [-1, 1, 0, INSERTED],
        [1, 2, 1, IDENTICAL],
        [2, 3, 1, IDENTICAL],
      ],
      [],
    );
    const both = buildTree(chain(["first_a", "second_b"]), chain(["body", "body.a", "body.b"]), pairs);
    const opened = texts(drawing(sceneOf(both, () => true)));
    expect(opened).toContain("first_a");
    expect(opened).toContain("second_b");
    // Out of the first, between them and into the second, for each model.
    expect(opened.filter((text) => text === "2×16")).toHaveLength(6);
    const closed = texts(drawing(sceneOf(both, (node) => node === 0)));
    expect(closed).toContain("first_a … second_b");
  });

  it("leaves out text that nobody could read", () => {
    expect(
      texts(
        drawing(
          sceneOf(tree, () => true),
          0.1,
        ),
      ),
    ).toEqual([]);
  });

  it("draws only what is in view", () => {
    const stack = buildSingleTree(stackedModel(100));
    const scene = sceneOf(stack, () => true);
    const everything = drawing(scene).length;
    const pen = new SvgPen();
    const painting = new Painting(stack, palette(false), "kind");
    const look = {
      picture: {},
      palette: palette(false),
      selected: -1,
      marked: -1,
      hovered: -1,
      canPair: false,
      weighEdges: false,
    };
    paint(
      pen,
      scene,
      {
        ...look,
        isFaint: () => false,
        isMatch: () => false,
        colour: (node, side) => painting.colour(node, side),
        counts: new KindCounts(stack),
      },
      { x: 0, y: 0, width: 600, height: 400 },
      1,
    );
    expect(pen.document(0, 0, 1, 1, "#fff").length).toBeLessThan(everything / 10);
  });
});

describe("places in the picture", () => {
  const scene = sceneOf(tree, () => true);

  it("are found again by what is drawn there, the innermost first", () => {
    for (const key of ["T:stem", "T:block.conv", "T:head"]) {
      const node = keys.find(key);
      const rect = scene.rect(node)!;
      expect(scene.hit(rect.x + rect.width / 2, rect.y + rect.height / 2)).toEqual({ node, side: "teacher" });
    }
    expect(scene.hit(-50, -50)).toBeNull();
  });

  it("of what is inside a closed module are that module's", () => {
    const closed = sceneOf(tree, (node) => node === 0);
    expect(closed.shown(keys.find("T:block.conv"))).toBe(keys.find("T:block"));
    expect(closed.rect(keys.find("T:block.conv"))).toBeNull();
  });
});
