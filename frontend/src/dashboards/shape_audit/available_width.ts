import { computed, signal } from "@preact/signals";

/** Of the window's width, what the scroll bar of a table and borders take. */
export const EDGES = 12;
/** The width of the findings beside a table, and of the widest window in which they stand above it (shape_audit.css). */
const FINDINGS = 260;
const STACKED = 1439;

/** Pixels; without end where there is no window. */
export const windowWidth = signal(globalThis.innerWidth ?? Number.POSITIVE_INFINITY);

globalThis.addEventListener?.("resize", () => {
  windowWidth.value = globalThis.innerWidth;
});

/** What the audit's table has while no details are open beside it: which columns it shows must not change with them. */
export const tableWidth = computed(
  () => windowWidth.value - EDGES - (windowWidth.value > STACKED ? FINDINGS : 0),
);
