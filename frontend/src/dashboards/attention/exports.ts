import { download } from "../../ui/download";
import type { ExportItem } from "../../ui/Frame";
import { type AttentionState, SIDES, type View } from "./attention_state";
import { axisLabels } from "./special_tokens";
import { STATISTICS } from "./statistics";

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
    items.push({
      label: `Download the ${name}'s head for numpy`,
      run: () => download(`${file}.npy`, npy(head.matrix.values, head.matrix.rows, head.matrix.columns)),
    });
  }
  items.push({ label: "Download the pictures as PNG", run: () => downloadCanvases(view) });
  return items;
}

const CSV = "text/csv;charset=utf-8";

function quote(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function statisticsCsv(state: AttentionState): string {
  const lines = [["model", "step", "layer", "module", "head", ...STATISTICS.map(({ id }) => id)].join(",")];
  for (const name of SIDES) {
    const overview = state.overview(name);
    overview?.layers.forEach((record, layer) => {
      for (let head = 0; head < (record.notCaptured === "" ? record.heads : 0); head++) {
        const values = STATISTICS.map(({ id }) => overview.statistic(id, layer, head));
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

/** A float32 matrix in numpy's .npy format 1.0 (numpy.lib.format). */
export function npy(values: ArrayLike<number>, rows: number, columns: number): Blob {
  const description = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  // Magic, version and length take 10 bytes; the whole header is padded to a multiple of 64 and ends in a newline.
  const length = Math.ceil((10 + description.length + 1) / 64) * 64 - 10;
  const header = new Uint8Array(10 + length).fill(0x20);
  header.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, length & 0xff, length >> 8]);
  header.set(new TextEncoder().encode(description), 10);
  header[header.length - 1] = 0x0a;
  return new Blob([header, Float32Array.from(values)], { type: "application/octet-stream" });
}

/** Every canvas of the view; marks that follow the pointer are not part of a picture. */
function downloadCanvases(view: View): void {
  const canvases = document.querySelectorAll<HTMLCanvasElement>(".view canvas:not(.matrix-marks)");
  canvases.forEach((canvas, index) => {
    canvas.toBlob((blob) => {
      if (blob !== null) download(`attention_${view}_${index}.png`, blob);
    });
  });
}
