import { useMemo } from "preact/hooks";
import { extent } from "../../heatmap/overview_plane";
import type { Matrix } from "../../heatmap/rasterize";
import type { AttentionOverview } from "../../wire/attention";
import type { AttentionState, SideName } from "./attention_state";
import type { HeadChoice } from "./head_choice";
import { type HeadMatrix, massOn, positionsOf, withoutColumns } from "./head_matrix";
import { axisLabels, specialPositions } from "./special_tokens";

/** One head of each model, ready to draw. */
export interface ShownHead {
  readonly name: SideName;
  readonly overview: AttentionOverview;
  readonly choice: HeadChoice;
  readonly head: HeadMatrix;
  /** With special tokens left out when they are hidden. */
  readonly matrix: Matrix;
  /** The largest value shown. */
  readonly maximum: number;
  /** Share of the probability that is hidden; 0 when nothing is. */
  readonly hiddenMass: number;
  readonly queryLabels: readonly string[];
  readonly keyLabels: readonly string[];
}

/** The row of a head's matrix that holds a query; queries beyond a shorter sequence show its last row. */
export function queryCell(query: number, { head, matrix }: ShownHead): number {
  const position = Math.min(query, head.queries - 1);
  return Math.min(matrix.rows - 1, Math.floor((position * matrix.rows) / Math.max(1, head.queries)));
}

/** The chosen heads of both models, as far as they have arrived. */
export function useShownHeads(state: AttentionState): ShownHead[] {
  const hide = state.hideSpecial.value !== "";
  const read = (name: SideName) => ({
    overview: state.overview(name),
    choice: state.chosen[name].value,
    head: state.data[name].matrix.value ?? undefined,
  });
  const teacher = read("teacher");
  const student = read("student");
  return useMemo(() => {
    const shown: ShownHead[] = [];
    for (const [name, { overview, choice, head }] of [
      ["teacher", teacher],
      ["student", student],
    ] as const) {
      if (overview === undefined || choice === null || head === undefined) continue;
      const keyAxis = overview.keyAxis(choice.layer);
      const hidden = hide && head.isFull ? specialPositions(keyAxis) : [];
      const { rows, columns } = head.matrix;
      const matrix = hidden.length === 0 ? head.matrix : withoutColumns(head.matrix, hidden);
      shown.push({
        name,
        overview,
        choice,
        head,
        matrix,
        maximum: extent(matrix),
        hiddenMass: hidden.length === 0 ? 0 : massOn(head.matrix, hidden),
        queryLabels: cellLabels(axisLabels(overview.queryAxis(choice.layer), head.queries), rows),
        keyLabels: cellLabels(axisLabels(keyAxis, head.keys), columns),
      });
    }
    return shown;
  }, [teacher.overview, teacher.choice, teacher.head, student.overview, student.choice, student.head, hide]);
}

/** Labels of cells: of the position itself, or of the first of several. */
function cellLabels(labels: readonly string[], cells: number): string[] {
  return Array.from(
    { length: cells },
    (_, cell) => labels[positionsOf(cell, cells, labels.length)[0]] ?? String(cell),
  );
}
