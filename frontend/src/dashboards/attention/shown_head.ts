import { useMemo } from "preact/hooks";
import { extent } from "../../heatmap/overview_plane";
import type { Matrix } from "../../heatmap/rasterize";
import type { AttentionOverview, HeadFilter } from "../../wire/attention";
import type { AttentionState, SideName } from "./attention_state";
import type { HeadChoice } from "./head_choice";
import { type HeadMatrix, massOn, withoutColumns, withTopMass } from "./head_matrix";
import { axisLabels, specialPositions } from "./special_tokens";

/** Leaves nothing out. */
export const NOTHING: HeadFilter = { hidden: [], share: 1 };

/** Whether keys and small probabilities can be left out: an overview alone does not hold them one by one. */
export function canFilter({ isFull, parts }: HeadMatrix): boolean {
  return isFull || (parts !== null && parts.rows === null);
}

/** One head of each model, ready to draw. */
export interface ShownHead {
  readonly name: SideName;
  readonly overview: AttentionOverview;
  readonly choice: HeadChoice;
  readonly head: HeadMatrix;
  /** With special tokens, and what is beyond the mass asked for, left out. */
  readonly matrix: Matrix;
  /** The largest value shown. */
  readonly maximum: number;
  /** What was asked to be left out. */
  readonly filter: HeadFilter;
  /** Share of the probability on hidden special tokens; 0 when none are, null when it has to be read. */
  readonly hiddenMass: number | null;
  /** A label for each position. */
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
  const share = state.topMass.value;
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
      const filter = { hidden: hide ? specialPositions(keyAxis) : [], share };
      const { hidden } = head.isFull ? filter : NOTHING;
      const visible = hidden.length === 0 ? head.matrix : withoutColumns(head.matrix, hidden);
      const matrix = share < 1 && head.isFull ? withTopMass(visible, share) : visible;
      shown.push({
        name,
        overview,
        choice,
        head,
        matrix,
        maximum: extent(matrix),
        filter,
        hiddenMass: filter.hidden.length === 0 ? 0 : head.isFull ? massOn(head.matrix, hidden) : null,
        queryLabels: axisLabels(overview.queryAxis(choice.layer), head.queries),
        keyLabels: axisLabels(keyAxis, head.keys),
      });
    }
    return shown;
  }, [
    teacher.overview,
    teacher.choice,
    teacher.head,
    student.overview,
    student.choice,
    student.head,
    hide,
    share,
  ]);
}
