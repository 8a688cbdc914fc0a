import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  AttentionOverviewHeaderSchema,
  TokenAxisSchema,
} from "../../gen/tb_plugin_structure/v1/attention_pb";
import { AttentionOverview } from "../../wire/attention";
import { Columns } from "../../wire/columns";
import { TableFixture } from "../../wire/table_fixture";
import { colour } from "./colouring";
import { headText, parseHead } from "./head_choice";
import {
  fullMatrix,
  massOn,
  overviewMatrix,
  positionsOf,
  valueAt,
  withoutColumns,
  withTopMass,
} from "./head_matrix";
import { layerDistances, meanOf, thin } from "./history";
import { nearest } from "./read_ahead";
import { axisLabels, specialPositions } from "./special_tokens";

/** One layer of two heads over 2 × 2 positions, and one that was not captured. */
function overview(scales: [number, number], bytes: number[]): AttentionOverview {
  const header = create(AttentionOverviewHeaderSchema, {
    model: "teacher",
    axes: [{ kind: "text", length: 2, tokens: ["[CLS]", "cat"] }],
    layers: [
      {
        modulePath: "a",
        heads: 2,
        queryLength: 2,
        keyLength: 2,
        overviewRows: 2,
        overviewColumns: 2,
        exactness: "exact",
      },
      { modulePath: "b", heads: 2, notCaptured: "linear attention" },
    ],
  });
  const statistics = new TableFixture().table("statistics", {
    layer: [0, 0],
    head: [0, 1],
    distance: [0.5, 1.5],
    maximum_scale: scales,
    mass_scale: scales,
  });
  const plane = Uint8Array.from(bytes);
  const address = { run: "r", tag: "overview/teacher", step: 0, hash: "" };
  return new AttentionOverview(address, header, new Columns(statistics), { maximum: plane, mass: plane });
}

describe("the overview of all heads", () => {
  const strong = overview([1, 0.5], [255, 0, 0, 255, 255, 255, 0, 0]);
  const weak = overview([0.25, 0.25], [255, 0, 0, 255, 255, 255, 0, 0]);

  it("puts all models on the scale of the strongest head", () => {
    const { thumbnails, maximum } = colour(
      [
        { overview: strong, base: undefined },
        { overview: weak, base: undefined },
      ],
      { scale: "linear", plane: "maximum", statistic: "", side: 64 },
    );
    expect(maximum).toBe(1);
    expect(thumbnails[0]?.map(({ row, column }) => [row, column])).toEqual([
      [0, 0],
      [0, 1],
    ]);
    expect(thumbnails[0]?.[0]?.colorIndex(255)).toBe(255);
    expect(thumbnails[0]?.[1]?.colorIndex(255)).toBe(128);
    expect(thumbnails[1]?.[0]?.colorIndex(255)).toBe(64);
  });

  it("subtracts another step on a scale that is symmetric about zero", () => {
    const { thumbnails, maximum, isSigned } = colour([{ overview: weak, base: strong }], {
      scale: "linear",
      plane: "maximum",
      statistic: "",
      side: 64,
    });
    expect([maximum, isSigned]).toEqual([0.75, true]);
    expect(thumbnails[0]?.[0]?.matrix.values[0]).toBeCloseTo(-0.75, 6);
    expect(thumbnails[0]?.[0]?.colorIndex(0)).toBe(128);
  });

  it("shows a statistic as one colour a head, and leaves out what was not captured", () => {
    const { thumbnails, maximum } = colour([{ overview: strong, base: undefined }], {
      scale: "linear",
      plane: "maximum",
      statistic: "distance",
      side: 64,
    });
    expect(maximum).toBe(1.5);
    expect(thumbnails[0]?.map(({ matrix }) => matrix.values)).toEqual([[0.5], [1.5]]);
  });

  it("says what an overview of a short sequence is worth", () => {
    expect(overviewMatrix(strong, 0, 1)).toMatchObject({ isFull: true, queries: 2, keys: 2 });
    expect(overviewMatrix(strong, 1, 0)).toBeNull();
    expect(fullMatrix(strong, 0, new Float32Array(3), "")).toBeNull();
  });
});

describe("a head's matrix", () => {
  const matrix = { values: [0.75, 0.25, 0.5, 0.5], rows: 2, columns: 2 };

  it("keeps the largest values of a row that hold a share of its mass", () => {
    const { values } = withTopMass({ values: [0.6, 0.1, 0.3, 0, 0.5, 0.5], rows: 2, columns: 3 }, 0.85);
    expect(Array.from(values, (value) => Math.round(10 * value) / 10)).toEqual([0.6, NaN, 0.3, 0, 0.5, 0.5]);
  });

  it("is read at a position, of a cell or of a block", () => {
    const half = { x: 2, y: 0, width: 2, height: 2 };
    expect(valueAt(matrix, half, 1, 3)).toEqual({ value: 0.5, isExact: true });
    const all = { x: 0, y: 0, width: 8, height: 4 };
    expect(valueAt(matrix, all, 1, 3)).toEqual({ value: 0.75, isExact: false });
  });

  it("knows the mass on some keys, and hides them", () => {
    expect(massOn(matrix, [0])).toBeCloseTo(0.625, 6);
    expect(Array.from(withoutColumns(matrix, [0]).values)).toEqual([Number.NaN, 0.25, Number.NaN, 0.5]);
  });

  it("passes over rows in which everything is masked", () => {
    expect(massOn({ values: [1, 0, 0, 0], rows: 2, columns: 2 }, [0])).toBe(1);
  });

  it("knows which positions a cell covers", () => {
    expect(positionsOf(1, 64, 128)).toEqual([2, 3]);
    expect(positionsOf(5, 64, 64)).toEqual([5, 5]);
  });
});

describe("tokens", () => {
  const text = create(TokenAxisSchema, {
    kind: "text",
    length: 6,
    tokens: ["[CLS]", "<script>alert(1)</script>", " the", "a\u0000\u202eb", "", "</s>"],
  });
  const image = create(TokenAxisSchema, {
    kind: "image",
    length: 5,
    gridHeight: 2,
    gridWidth: 2,
    specialTokens: 1,
  });

  it("special ones are found by how tokenizers write them, or before an image's patches", () => {
    expect(specialPositions(text)).toEqual([0, 5]);
    expect(specialPositions(image)).toEqual([0]);
    expect(specialPositions(undefined)).toEqual([]);
  });

  it("are labelled so that nothing is invisible", () => {
    expect(axisLabels(text, 6)).toEqual(["[CLS]", "<script>alert(1)</script>", "␣the", "a��b", "∅", "</s>"]);
    expect(axisLabels(image, 5)).toEqual(["class", "0,0", "0,1", "1,0", "1,1"]);
    expect(axisLabels(undefined, 2)).toEqual(["0", "1"]);
  });
});

describe("the history of a comparison", () => {
  const comparison = (distance: number | null, heads: [number, number, number][]) => ({
    measure: "Hellinger",
    resolution: "full",
    layer_distances: [[distance]],
    pairs: [{ teacher: 0, student: 0, heads, unmatched_teacher: [], unmatched_student: [] }],
    layer_pairs: [[0, 0]] as [number, number][],
    pairing: "alignment" as const,
    notes: [],
  });
  const history = {
    steps: [0, 10],
    teacher: [],
    student: [],
    comparisons: [comparison(0.5, [[0, 1, 0.4]]), comparison(null, [[0, 0, 0.3]])],
  };

  it("has a gap where layers could not be compared", () => {
    expect(layerDistances(history, 0, 0)).toEqual([
      { x: 0, y: 0.5 },
      { x: 10, y: Number.NaN },
    ]);
  });

  it("averages over the heads of a layer, unknown ones left out", () => {
    const table = new Columns(
      new TableFixture().table("statistics", { layer: [0, 0, 1], sink_mass: [0.2, Number.NaN, 0.6] }),
    );
    expect(meanOf(table, "sink_mass", 0)).toBeCloseTo(0.2, 9);
    expect(meanOf(table, "sink_mass", null)).toBeCloseTo(0.4, 9);
    expect(meanOf(table, "sink_mass", 7)).toBeNaN();
  });
});

describe("addresses and steps", () => {
  it("reads the steps around the one shown, the nearest first", () => {
    expect(nearest([0, 10, 20, 30, 40, 50, 60, 70, 80], 1)).toEqual([20, 0, 30, 40]);
    expect(nearest([0, 10], -1)).toEqual([]);
  });

  it("write a head as layer and number", () => {
    expect(parseHead(headText({ layer: 3, head: 5 }))).toEqual({ layer: 3, head: 5 });
    expect(parseHead("3")).toBeNull();
  });

  it("keep the first and the last of many steps", () => {
    const steps = Array.from({ length: 101 }, (_, index) => index);
    expect(thin(steps, 5)).toEqual([0, 25, 50, 75, 100]);
    expect(thin([1, 2], 5)).toEqual([1, 2]);
  });
});
