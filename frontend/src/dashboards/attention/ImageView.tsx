import { useEffect, useMemo, useState } from "preact/hooks";
import type { TokenAxis } from "../../gen/tb_plugin_structure/v1/attention_pb";
import { channels, SEQUENTIAL } from "../../heatmap/color_maps";
import { ValueScale } from "../../heatmap/value_scale";
import type { AttentionOverview } from "../../wire/attention";
import type { AttentionState, SideName } from "./attention_state";
import { HeadPicker } from "./HeadPicker";
import { type HeadMatrix, largest, matrixRow } from "./head_matrix";
import { Legend } from "./Legend";
import { ViewOptions } from "./ViewOptions";

const LARGE = 260;
const SMALL = 104;

/** Whether a layer's keys are patches of an image. */
function imageAxis(overview: AttentionOverview, layer: number): TokenAxis | null {
  const axis = overview.keyAxis(layer);
  return axis !== undefined && axis.gridHeight > 0 && axis.gridWidth > 0 ? axis : null;
}

/** What the image view shows of one model. */
interface ImageSideData {
  readonly name: SideName;
  readonly overview: AttentionOverview;
  readonly layer: number;
  readonly head: number;
  readonly axis: TokenAxis;
  readonly query: number;
  /** The query's row of each head of the layer; null where single positions cannot be told apart. */
  readonly rows: readonly (Float32Array | null)[];
}

/** Where the chosen patch looks, drawn over the image, for every head of the chosen layers. */
export function ImageView({ state }: { state: AttentionState }) {
  const teacher = useImageSide(state, "teacher");
  const student = useImageSide(state, "student");
  const sides = [teacher, student].filter((side) => side !== null);
  if (sides.length === 0) {
    return (
      <p class="hint">
        The positions of these layers are not patches of an image. For a vision model the grid is recorded by
        itself; other models have tokens, which the Head view shows.
      </p>
    );
  }
  // One scale for both models, over the patches: a class token may hold most of the mass.
  const patchMaximum = ({ rows, axis }: ImageSideData) =>
    largest(rows.map((row) => (row === null ? 0 : largest(row.subarray(axis.specialTokens)))));
  const scale = new ValueScale(state.scale.value, largest(sides.map(patchMaximum)));
  return (
    <>
      <div class="view-bar">
        <Legend
          colors={SEQUENTIAL}
          kind={state.scale.value}
          maximum={scale.maximum}
          isSigned={false}
          label="probability"
        />
        <ViewOptions state={state} view="image" />
        <span class="soft">Choose a patch in the picture; the other pictures show where it looks.</span>
      </div>
      <section class="image-view" aria-label="Attention over the image">
        {sides.map((side) => (
          <ImageSide key={side.name} state={state} side={side} scale={scale} />
        ))}
      </section>
    </>
  );
}

function useImageSide(state: AttentionState, name: SideName): ImageSideData | null {
  const overview = state.overview(name);
  const choice = state.chosen[name].value;
  const layer = choice?.layer ?? -1;
  const matrices = useHeads(state, name, overview, layer);
  const length = overview?.layers[layer]?.queryLength ?? 1;
  const query = Math.min(state.query.value, length - 1);
  const rows = useMemo(
    () => matrices.map((matrix) => (matrix?.isFull ? matrixRow(matrix.matrix, query) : null)),
    [matrices, query],
  );
  const axis = overview === undefined ? null : imageAxis(overview, layer);
  if (overview === undefined || choice === null || axis === null) return null;
  return { name, overview, layer, head: choice.head, axis, query, rows };
}

function ImageSide({
  state,
  side,
  scale,
}: {
  state: AttentionState;
  side: ImageSideData;
  scale: ValueScale;
}) {
  const { name, layer, head, axis, query, rows } = side;
  const picture = useThumbnail(axis);
  const chosenRow = rows[head] ?? null;
  const patches = (row: Float32Array) => row.subarray(axis.specialTokens);
  const special = chosenRow === null ? [] : Array.from(chosenRow.subarray(0, axis.specialTokens));
  const common = { axis, picture, scale, query };
  const pick = (position: number) => state.setQuery(position);
  return (
    <div class="image-side">
      <HeadPicker state={state} name={name} />
      <div class="image-main">
        <PatchGrid
          {...common}
          values={null}
          size={LARGE}
          label={`Query patch of the ${name}`}
          onPick={pick}
        />
        <PatchGrid
          {...common}
          values={chosenRow === null ? null : patches(chosenRow)}
          size={LARGE}
          label={`Where query ${query} looks, head ${head}`}
          onPick={pick}
        />
      </div>
      {axis.specialTokens > 0 && (
        <p class="special-tokens">
          {special.map((mass, token) => (
            <button
              key={token}
              type="button"
              class="chip tone-grey"
              aria-pressed={query === token}
              data-tip="Share of the probability on this token; click to take it as the query"
              onClick={() => pick(token)}
            >
              {axis.tokens[token] || (token === 0 ? "class" : `special ${token}`)} {(100 * mass).toFixed(1)} %
            </button>
          ))}
        </p>
      )}
      {rows.length > 0 && chosenRow === null && (
        <p class="hint">
          This head was stored as a 64 × 64 overview, in which single patches cannot be told apart.
        </p>
      )}
      <h2>All heads of layer {layer}</h2>
      <div class="image-heads">
        {rows.map((row, index) =>
          row === null ? null : (
            <button
              key={index}
              type="button"
              class={`thumb-button${index === head ? " chosen" : ""}`}
              aria-pressed={index === head}
              aria-label={`Head ${index}`}
              onClick={() => state.choose(name, { layer, head: index }, true)}
            >
              <PatchGrid {...common} values={patches(row)} size={SMALL} label={`Head ${index}`} />
              <span class="under">head {index}</span>
            </button>
          ),
        )}
      </div>
    </div>
  );
}

interface PatchGridProps {
  axis: TokenAxis;
  picture: string | null;
  /** Probability of each patch; null draws the image alone. */
  values: Float32Array | null;
  scale: ValueScale;
  size: number;
  /** Position on the axis, special tokens included. */
  query: number;
  label: string;
  onPick?: (position: number) => void;
}

function PatchGrid({ axis, picture, values, scale, size, query, label, onPick }: PatchGridProps) {
  const { gridWidth: columns, gridHeight: rows, specialTokens } = axis;
  const cell = size / Math.max(columns, rows);
  const [width, height] = [cell * columns, cell * rows];
  const chosen = query - specialTokens;
  const pick = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
    onPick?.(specialTokens + row * columns + column);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -columns,
      ArrowDown: columns,
    };
    const move = moves[event.key];
    if (move === undefined || onPick === undefined) return;
    onPick(specialTokens + Math.max(0, Math.min(rows * columns - 1, Math.max(0, chosen) + move)));
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <svg
      class={onPick === undefined ? "patches" : "patches pickable"}
      width={width}
      height={height}
      viewBox={`0 0 ${columns} ${rows}`}
      role={onPick === undefined ? "img" : "application"}
      aria-label={onPick === undefined ? label : `${label}. Arrow keys choose the patch.`}
      tabIndex={onPick === undefined ? undefined : 0}
      onClick={onPick === undefined ? undefined : pick}
      onKeyDown={onKeyDown}
    >
      {picture !== null && (
        <image
          href={picture}
          x={0}
          y={0}
          width={columns}
          height={rows}
          preserveAspectRatio="none"
          class="pixelated"
        />
      )}
      {values !== null &&
        Array.from({ length: rows * columns }, (_, patch) => {
          const value = values[patch] ?? 0;
          const position = scale.position(value);
          const [red, green, blue] = channels(SEQUENTIAL, Math.round(255 * position));
          return (
            <rect
              key={patch}
              x={patch % columns}
              y={Math.floor(patch / columns)}
              width={1}
              height={1}
              fill={`rgb(${red},${green},${blue})`}
              // Without an image the colours stand alone; over one, weak attention lets it through.
              fill-opacity={picture === null ? 1 : 0.25 + 0.6 * position}
              data-tip={
                onPick === undefined
                  ? undefined
                  : `patch ${Math.floor(patch / columns)},${patch % columns}: ${value.toFixed(5)}`
              }
            />
          );
        })}
      {picture === null && values === null && <rect width={columns} height={rows} class="no-image" />}
      {chosen >= 0 && (
        <rect
          x={chosen % columns}
          y={Math.floor(chosen / columns)}
          width={1}
          height={1}
          class="query-patch"
          vector-effect="non-scaling-stroke"
        />
      )}
    </svg>
  );
}

/** The image as an address; null when it was not kept. */
function useThumbnail(axis: TokenAxis): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    if (axis.thumbnailPng.length === 0) {
      setAddress(null);
      return;
    }
    const created = URL.createObjectURL(new Blob([new Uint8Array(axis.thumbnailPng)], { type: "image/png" }));
    setAddress(created);
    return () => URL.revokeObjectURL(created);
  }, [axis]);
  return address;
}

/** All heads of a layer, when they have arrived. */
function useHeads(
  state: AttentionState,
  name: SideName,
  overview: AttentionOverview | undefined,
  layer: number,
): (HeadMatrix | null)[] {
  const [matrices, setMatrices] = useState<(HeadMatrix | null)[]>([]);
  useEffect(() => {
    let isCurrent = true;
    const heads = overview?.layers[layer]?.heads ?? 0;
    const read = (head: number) => state.headMatrix(name, { layer, head }).catch(() => null);
    void Promise.all(Array.from({ length: heads }, (_, head) => read(head))).then((arrived) => {
      if (isCurrent) setMatrices(arrived);
    });
    return () => {
      isCurrent = false;
    };
  }, [state, name, overview, layer]);
  return matrices;
}
