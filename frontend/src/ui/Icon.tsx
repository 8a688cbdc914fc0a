/** Line drawings on a 16 × 16 grid; glyphs from fonts are missing on many machines. */
const PATHS = {
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  check: "M3 8.5l3.5 3.5L13 4.5",
  download: "M8 2.5v8M4.5 7L8 10.5 11.5 7M3 13.5h10",
  swap: "M3 5.5h10M10 2.5l3 3-3 3M13 10.5H3M6 7.5l-3 3 3 3",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 12v.5",
  undo: "M4 6h6a3 3 0 0 1 0 6H7M6.5 3.5L4 6l2.5 2.5",
  redo: "M12 6H6a3 3 0 0 0 0 6h3M9.5 3.5L12 6 9.5 8.5",
  open: "M3.5 3.5h9v9h-9zM8 5.5v5M5.5 8h5",
  close: "M3.5 3.5h9v9h-9zM5.5 8h5",
  upstream: "M8 13.5V6M4.5 8.5L8 5l3.5 3.5M3.5 2.5h9",
  downstream: "M8 2.5V10M4.5 7.5L8 11l3.5-3.5M3.5 13.5h9",
  between: "M8 4v8M5.5 6L8 3.5 10.5 6M5.5 10L8 12.5l2.5-2.5",
  weigh: "M3 4.5h10M3 8h10M3 12h10",
  focus: "M8 1.5v3M8 11.5v3M1.5 8h3M11.5 8h3M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6z",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  link: "M6.5 4.5L8 3a3 3 0 0 1 4.3 4.3L10.8 8.8M9.5 11.5L8 13a3 3 0 0 1-4.3-4.3l1.5-1.5M6.3 9.7l3.4-3.4",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path
        d={PATHS[name]}
        fill="none"
        stroke="currentColor"
        stroke-width={name === "weigh" ? 2 : 1.5}
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}
