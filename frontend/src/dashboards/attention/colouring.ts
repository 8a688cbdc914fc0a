import { type ColorMap, SEQUENTIAL, SIGNED } from "../../heatmap/color_maps";
import { decodePlane, difference, extent } from "../../heatmap/overview_plane";
import { RowState } from "../../heatmap/row_states";
import type { Thumbnail } from "../../heatmap/thumbnail_sheet";
import { type ScaleKind, SignedScale, ValueScale } from "../../heatmap/value_scale";
import type { AttentionOverview, PlaneKind } from "../../wire/attention";
import { pooledPlane } from "./pooled_planes";

/** What the thumbnails of all models show, on one colour scale. */
export interface Colouring {
  readonly thumbnails: readonly (readonly Thumbnail[])[];
  readonly maximum: number;
  readonly colors: ColorMap;
  readonly isSigned: boolean;
}

export interface ColouringOptions {
  readonly scale: ScaleKind;
  readonly plane: PlaneKind;
  /** Statistic shown as one colour a head; "" for the maps. */
  readonly statistic: string;
  /** Side of a thumbnail in pixels of the screen. */
  readonly side: number;
}

/** A model's overview and, when a step is compared with, that step's. */
export interface Shown {
  readonly overview: AttentionOverview;
  readonly base: AttentionOverview | undefined;
}

/** Thumbnails of every captured head of the models given. The scale spans all of them, so that colours compare. */
export function colour(models: readonly Shown[], options: ColouringOptions): Colouring {
  const isSigned = models.some(({ base }) => base !== undefined);
  if (options.statistic !== "") return colourStatistic(models, options, isSigned);
  return isSigned ? colourDifference(models, options) : colourMaps(models, options);
}

function eachHead(overview: AttentionOverview, visit: (layer: number, head: number) => void): void {
  overview.layers.forEach((record, layer) => {
    if (record.notCaptured !== "") return;
    for (let head = 0; head < record.heads; head++) visit(layer, head);
  });
}

function colourMaps(
  models: readonly Shown[],
  { scale: kind, plane: planeKind, side }: ColouringOptions,
): Colouring {
  let maximum = 0;
  for (const { overview } of models) {
    eachHead(overview, (layer, head) => {
      const scale = overview.statistic(`${planeKind}_scale`, layer, head);
      if (scale > maximum) maximum = scale;
    });
  }
  const scale = new ValueScale(kind, maximum);
  const thumbnails = models.map(({ overview }) => {
    const made: Thumbnail[] = [];
    eachHead(overview, (layer, head) => {
      const plane = overview.plane(layer, head, planeKind);
      if (plane === null) return;
      const step = plane.scale / 65025;
      made.push({
        row: layer,
        column: head,
        matrix: pooledPlane(overview, layer, head, planeKind, plane, side),
        colorIndex: (byte) => scale.index(step * byte * byte),
        colors: SEQUENTIAL,
      });
    });
    return made;
  });
  return { thumbnails, maximum, colors: SEQUENTIAL, isSigned: false };
}

function colourDifference(
  models: readonly Shown[],
  { scale: kind, plane: planeKind }: ColouringOptions,
): Colouring {
  const differences = models.map(({ overview, base }) => {
    const made: Omit<Thumbnail, "colorIndex" | "colors">[] = [];
    eachHead(overview, (layer, head) => {
      const now = overview.plane(layer, head, planeKind);
      const then = base?.plane(layer, head, planeKind) ?? null;
      if (now === null || then === null) return;
      made.push({ row: layer, column: head, matrix: difference(decodePlane(now), decodePlane(then)) });
    });
    return made;
  });
  const maximum = Math.max(
    0,
    ...differences.map((made) => made.reduce((most, { matrix }) => Math.max(most, extent(matrix)), 0)),
  );
  const scale = new SignedScale(kind, maximum);
  const thumbnails = differences.map((made) =>
    made.map((thumbnail) => ({
      ...thumbnail,
      colorIndex: (value: number) => scale.index(value),
      colors: SIGNED,
    })),
  );
  return { thumbnails, maximum, colors: SIGNED, isSigned: true };
}

const LOST = Uint8Array.of(RowState.notFinite);

function colourStatistic(
  models: readonly Shown[],
  { scale: kind, statistic }: ColouringOptions,
  isSigned: boolean,
): Colouring {
  const values = models.map(({ overview, base }) => {
    const made: { row: number; column: number; value: number; isLost: boolean }[] = [];
    eachHead(overview, (layer, head) => {
      const now = overview.statistic(statistic, layer, head);
      const value = isSigned ? now - (base?.statistic(statistic, layer, head) ?? Number.NaN) : now;
      // A head of which nothing is left but NaN has no statistics.
      const isLost = !Number.isFinite(value) && overview.statistic("non_finite_rows", layer, head) > 0;
      if (Number.isFinite(value) || isLost) made.push({ row: layer, column: head, value, isLost });
    });
    return made;
  });
  const maximum = values.flat().reduce((most, { value }) => Math.max(most, Math.abs(value) || 0), 0);
  const scale = isSigned ? new SignedScale(kind, maximum) : new ValueScale(kind, maximum);
  const colors = isSigned ? SIGNED : SEQUENTIAL;
  const thumbnails = values.map((made) =>
    made.map(({ row, column, value, isLost }) => ({
      row,
      column,
      matrix: { values: [value], rows: 1, columns: 1, rowStates: isLost ? LOST : undefined },
      colorIndex: (cell: number) => scale.index(cell),
      colors,
    })),
  );
  return { thumbnails, maximum, colors, isSigned };
}
