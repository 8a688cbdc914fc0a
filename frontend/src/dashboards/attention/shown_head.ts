import { useMemo } from "preact/hooks";
import type { TokenAxis } from "../../gen/tb_plugin_structure/v1/attention_pb";
import { extent } from "../../heatmap/overview_plane";
import type { Matrix } from "../../heatmap/rasterize";
import type { AttentionOverview, HeadFilter } from "../../wire/attention";
import type { AttentionState, SideName } from "./attention_state";
import type { HeadChoice } from "./head_choice";
import { type HeadMatrix, massOn, withoutColumns, withTopMass } from "./head_matrix";
import { axisLabels, specialPositions, visibleText } from "./special_tokens";
import { betweenWords, single, wordsAround, wordsOf } from "./words";

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
  /** The word around each position that is a piece of one, else "". */
  readonly queryWords: readonly string[];
  readonly keyWords: readonly string[];
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
  const wholeWords = state.wholeWords.value !== "";
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
      const queryAxis = overview.queryAxis(choice.layer);
      const positions = {
        queryLabels: axisLabels(queryAxis, head.queries),
        keyLabels: axisLabels(keyAxis, head.keys),
      };
      const labels = { ...positions, ...words(queryAxis, keyAxis) };
      const joined =
        wholeWords && head.isFull ? joinWords(head, visible, queryAxis, keyAxis, positions) : null;
      const limited = joined?.head.matrix ?? visible;
      const matrix = share < 1 && head.isFull ? withTopMass(limited, share) : limited;
      shown.push({
        name,
        overview,
        choice,
        head: joined?.head ?? head,
        matrix,
        maximum: extent(matrix),
        filter,
        hiddenMass: filter.hidden.length === 0 ? 0 : head.isFull ? massOn(head.matrix, hidden) : null,
        ...(joined?.labels ?? labels),
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
    wholeWords,
  ]);
}

function words(queries: TokenAxis | undefined, keys: TokenAxis | undefined) {
  return { queryWords: wordsAround(queries?.tokens ?? []), keyWords: wordsAround(keys?.tokens ?? []) };
}

/** A head from word to word, as if words were its positions; null when every piece is a word. */
function joinWords(
  head: HeadMatrix,
  visible: Matrix,
  queryAxis: TokenAxis | undefined,
  keyAxis: TokenAxis | undefined,
  labels: { queryLabels: readonly string[]; keyLabels: readonly string[] },
) {
  const [queryWords, keyWords] = [queryAxis, keyAxis].map((axis) => wordsOf(axis?.tokens ?? []));
  if (!queryWords && !keyWords) return null;
  const queries = queryWords ?? single(labels.queryLabels);
  const keys = keyWords ?? single(labels.keyLabels);
  const joined: HeadMatrix = {
    ...head,
    matrix: betweenWords(visible, queries, keys),
    queries: queries.length,
    keys: keys.length,
    guarantee: `${head.guarantee} · words: the mean over a word's queries, the sum over its keys`,
  };
  const texts = (all: readonly { text: string }[]) => all.map(({ text }) => visibleText(text));
  return {
    head: joined,
    labels: { queryLabels: texts(queries), keyLabels: texts(keys), queryWords: [], keyWords: [] },
  };
}
