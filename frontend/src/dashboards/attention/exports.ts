import { type NpyArray, npz } from "../../heatmap/npz";
import { decodePlane } from "../../heatmap/overview_plane";
import { download } from "../../ui/download";
import type { ExportItem } from "../../ui/Frame";
import { type AttentionState, SIDES, type View } from "./attention_state";
import { axisLabels } from "./special_tokens";
import { LEFT_OUT, STATISTICS } from "./statistics";
import { viewPng, viewSvg } from "./view_picture";

/** Files of what is shown. */
export function exportItems(state: AttentionState, view: View): ExportItem[] {
  if (state.overview("teacher") === undefined) return [];
  const items: ExportItem[] = [
    {
      label: "Download the statistics of all heads as CSV",
      run: () => download("heads.csv", statisticsCsv(state), CSV),
    },
  ];
  for (const name of SIDES) {
    const choice = state.chosen[name].value;
    const overview = state.overview(name);
    const head = state.data[name].matrix.value;
    if (choice === null || overview === undefined || !head) continue;
    const file = `${overview.header.model}_step${overview.address.step}_layer${choice.layer}_head${choice.head}`;
    items.push({
      label: `Download the ${name}'s head as CSV`,
      run: () => {
        const { matrix } = head;
        const queries = axisLabels(overview.queryAxis(choice.layer), head.queries);
        const keys = axisLabels(overview.keyAxis(choice.layer), head.keys);
        // Overview cells cover several positions; their numbers say so better than one token would.
        const rows = head.isFull ? queries : Array.from({ length: matrix.rows }, (_, row) => `block ${row}`);
        const columns = head.isFull
          ? keys
          : Array.from({ length: matrix.columns }, (_, column) => `block ${column}`);
        download(`${file}.csv`, matrixCsv(matrix.values, rows, columns), CSV);
      },
    });
  }
  items.push(
    {
      label: "Download all of it for numpy (NPZ)",
      run: () => void shownArrays(state).then((arrays) => download("attention.npz", npz(arrays))),
    },
    { label: "Download the view as PNG", run: () => void downloadPicture(view, "png") },
    { label: "Download the view as SVG", run: () => void downloadPicture(view, "svg") },
  );
  return items;
}

const COLUMNS = [...STATISTICS, ...LEFT_OUT];
const CSV = "text/csv;charset=utf-8";

function quote(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function statisticsCsv(state: AttentionState): string {
  const lines = [["model", "step", "layer", "module", "head", ...COLUMNS.map(({ id }) => id)].join(",")];
  for (const name of SIDES) {
    const overview = state.overview(name);
    overview?.layers.forEach((record, layer) => {
      for (let head = 0; head < (record.notCaptured === "" ? record.heads : 0); head++) {
        const values = COLUMNS.map(({ id }) => overview.statistic(id, layer, head));
        const place = [overview.header.model, overview.address.step, layer, record.modulePath, head];
        lines.push([...place, ...values].map((value) => quote(String(value))).join(","));
      }
    });
  }
  return `${lines.join("\r\n")}\r\n`;
}

function matrixCsv(values: ArrayLike<number>, rows: readonly string[], columns: readonly string[]): string {
  const lines = [["query \\ key", ...columns].map(quote).join(",")];
  rows.forEach((label, row) => {
    const cells = columns.map((_, column) => String(values[row * columns.length + column] ?? ""));
    lines.push([quote(label), ...cells].join(","));
  });
  return `${lines.join("\r\n")}\r\n`;
}

/** The chosen heads, and the overview planes and statistics of every layer: what the tab shows, for numpy. */
async function shownArrays(state: AttentionState): Promise<Record<string, NpyArray>> {
  const arrays: Record<string, NpyArray> = {};
  for (const name of SIDES) {
    const shown = state.overview(name);
    const head = state.data[name].matrix.value;
    if (shown === undefined) continue;
    const overview = await state.overviewWithMass(shown.address);
    if (head) {
      const { values, rows, columns } = head.matrix;
      arrays[`${name}_head`] = { values, shape: [rows, columns] };
    }
    overview.layers.forEach((record, layer) => {
      if (record.notCaptured !== "") return;
      const heads = Array.from({ length: record.heads }, (_, index) => index);
      for (const kind of ["maximum", "mass"] as const) {
        const planes = heads.map((index) => overview.plane(layer, index, kind));
        const cells = record.overviewRows * record.overviewColumns;
        const values = new Float32Array(cells * heads.length);
        planes.forEach((plane, index) => {
          if (plane !== null) values.set(decodePlane(plane).values as Float32Array, index * cells);
        });
        arrays[`${name}_layer${layer}_${kind}_plane`] = {
          values,
          shape: [heads.length, record.overviewRows, record.overviewColumns],
        };
      }
      for (const { id } of COLUMNS) {
        arrays[`${name}_layer${layer}_${id}`] = {
          values: heads.map((index) => overview.statistic(id, layer, index)),
          shape: [heads.length],
        };
      }
    });
  }
  return arrays;
}

/** The view as one picture. */
async function downloadPicture(view: View, format: "svg" | "png"): Promise<void> {
  const element = document.querySelector(".view");
  if (element === null) return;
  const name = `attention_${view}.${format}`;
  if (format === "svg") {
    download(name, viewSvg(element), "image/svg+xml");
    return;
  }
  const picture = await viewPng(element);
  if (picture !== null) download(name, picture);
}
