import { columnsThatFit, type TableColumn } from "../../table/columns";
import type { TableModel } from "../../table/table_model";
import { announce } from "../../ui/announce";
import { copyText } from "../../ui/copy";
import { exactNumber, ratio, shapeText, shortNumber } from "../../ui/format";
import { kindStyle } from "../../ui/kinds";
import type { AuditRows, SideName } from "./audit_rows";
import { LEVELS } from "./audit_rows";
import { QUANTITIES } from "./quantities";
import { severityStyle, verdictStyle } from "./verdicts";

/** Columns that are shown until someone chooses others. */
export const DEFAULT_COLUMNS: ReadonlySet<string> = new Set([
  "teacher",
  "teacher_shape",
  "student",
  "student_shape",
  "verdict",
  "classes",
  "adapter",
  "adapter_parameters",
  "parameters",
  "macs",
  "activation_bytes",
]);

/** Of those, the first to go where there is no space for all. */
const FIRST_TO_GO = [
  "duration_ns",
  "activation_bytes",
  "adapter_parameters",
  "classes",
  "macs",
  "parameters",
];

/** Of those, the ones whose records hold what they show, as far as they fit into `space` pixels. */
export function usualColumns(rows: AuditRows | undefined, space: number): ReadonlySet<string> {
  if (rows === undefined) return DEFAULT_COLUMNS;
  const usual = rows.isRecorded("duration_ns")
    ? new Set([...DEFAULT_COLUMNS, "duration_ns"])
    : DEFAULT_COLUMNS;
  return columnsThatFit(
    auditColumns(rows, () => null),
    usual,
    FIRST_TO_GO,
    space,
  );
}

const SIDES: Readonly<Record<SideName, string>> = { teacher: "T", student: "S" };

/** The columns of the audit table. `model` gives the state of a row's fold; it is set after the table exists. */
export function auditColumns(rows: AuditRows, model: () => TableModel | null): TableColumn[] {
  const side = (name: SideName): TableColumn[] => [
    {
      id: name,
      label: `${SIDES[name]} module`,
      title: `Module of the ${name}, and its class`,
      width: 148,
      grow: 3,
      monospace: true,
      text: (row) => moduleText(rows, name, row),
      render: (cell, row) => renderModule(cell, rows, name, row, model()),
    },
    {
      id: `${name}_shape`,
      label: `${SIDES[name]} shape`,
      title: `Shape of the ${name}'s output; sorted by number of elements`,
      width: 100,
      grow: 0.6,
      monospace: true,
      filterHint: "filter",
      text: (row) => (rows.hasSide(name, row) ? shapeText(rows.shape(name, row)) : ""),
      number: (row) =>
        rows.hasSide(name, row)
          ? rows.shape(name, row).reduce((product, size) => product * size, 1)
          : Number.NaN,
    },
  ];
  const text = (id: string, label: string, width: number, title?: string): TableColumn => ({
    id,
    label,
    width,
    ...(title === undefined ? {} : { title }),
    text: (row) => rows.text(id, row),
  });
  const list = (id: string, label: string, width: number): TableColumn => ({
    id,
    label,
    width,
    text: (row) => rows.texts(id, row).join(", "),
  });
  const symbols = (name: SideName): TableColumn => ({
    id: `${name}_symbols`,
    label: `${SIDES[name]} symbolic`,
    title: `Each dimension of the ${name}'s output as an expression of the input's, where the record has them`,
    width: 170,
    monospace: true,
    text: (row) => rows.symbols(name, row).join("×"),
  });
  const quantities = QUANTITIES.filter(({ id, optional }) => !optional || rows.isRecorded(id));
  return [
    text("stage", "stage", 100),
    { id: "level", label: "level", width: 64, text: (row) => LEVELS[rows.level(row)] ?? "" },
    ...side("teacher"),
    ...side("student"),
    verdictColumn(rows),
    {
      id: "classes",
      label: "mismatch",
      title: "What differs",
      width: 84,
      grow: 0.6,
      text: (row) => rows.texts("classes", row).join(", "),
    },
    adapterColumn(rows),
    {
      id: "adapter_parameters",
      label: "+ params",
      title: "Parameters that the adapter adds",
      width: 78,
      align: "end",
      text: (row) =>
        rows.text("adapter", row) === "" ? "" : shortNumber(rows.number("adapter_parameters", row)),
      number: (row) =>
        rows.text("adapter", row) === "" ? Number.NaN : rows.number("adapter_parameters", row),
      render: (cell, row) => {
        const count = rows.number("adapter_parameters", row);
        cell.textContent = rows.text("adapter", row) === "" ? "" : shortNumber(count);
        if (cell.textContent !== "") cell.dataset.tip = `${exactNumber(count)} parameters in the adapter`;
      },
    },
    ...quantities.map(
      (quantity): TableColumn => ({
        id: quantity.id,
        label: `${quantity.short} S÷T`,
        title: `${quantity.label}, student ÷ teacher`,
        width: 82,
        align: "end",
        filterHint: "< 0.5",
        text: (row) => ratioText(rows, quantity.id, row),
        number: (row) => rows.ratio(quantity.id, row),
        groupText: (stage) =>
          ratio(
            rows.stageTotal("student", quantity.id, stage),
            rows.stageTotal("teacher", quantity.id, stage),
          ),
        render: (cell, row) => {
          cell.textContent = ratioText(rows, quantity.id, row);
          const exact = (name: SideName) =>
            rows.hasSide(name, row) ? exactNumber(rows.number(`${name}_${quantity.id}`, row)) : "—";
          cell.dataset.tip = `${quantity.label}\nT ${exact("teacher")}\nS ${exact("student")}`;
        },
      }),
    ),
    ...quantities.flatMap((quantity) =>
      (["teacher", "student"] as const).map(
        (name): TableColumn => ({
          id: `${name}_${quantity.id}`,
          label: `${SIDES[name]} ${quantity.short}`,
          title: `${quantity.label} of the ${name}`,
          width: 84,
          align: "end",
          text: (row) =>
            rows.hasSide(name, row) ? quantity.format(rows.number(`${name}_${quantity.id}`, row)) : "",
          number: (row) =>
            rows.hasSide(name, row) ? rows.number(`${name}_${quantity.id}`, row) : Number.NaN,
          groupText: (stage) => {
            const total = rows.stageTotal(name, quantity.id, stage);
            return Number.isNaN(total) ? "" : quantity.format(total);
          },
        }),
      ),
    ),
    text("cause", "cause", 220, "What brought the mismatch about"),
    {
      id: "kind",
      label: "pair",
      title: "How the two modules relate",
      width: 110,
      text: (row) => kindStyle(rows.number("kind", row)).name,
    },
    {
      id: "confidence",
      label: "confidence",
      width: 84,
      align: "end",
      text: (row) => rows.number("confidence", row).toFixed(2),
      number: (row) => rows.number("confidence", row),
    },
    text("matched", "matched by", 200, "Why the two were paired"),
    text("teacher_layout", "T layout", 76),
    text("student_layout", "S layout", 76),
    symbols("teacher"),
    symbols("student"),
    list("teacher_flags", "T flags", 150),
    list("student_flags", "S flags", 150),
    text("teacher_dtype", "T dtype", 84),
    text("student_dtype", "S dtype", 84),
    text("teacher_device", "T device", 76),
    text("student_device", "S device", 76),
    text("teacher_element", "T element", 100, "Which element of the teacher's output is compared"),
    text("student_element", "S element", 100, "Which element of the student's output is compared"),
  ];
}

function moduleText(rows: AuditRows, side: SideName, row: number): string {
  if (!rows.hasSide(side, row)) return "";
  const call = rows.text(`${side}_call`, row);
  return [rows.path(side, row) || "(model)", rows.text(`${side}_class`, row), call && `call ${call}`]
    .filter(Boolean)
    .join(" ");
}

function ratioText(rows: AuditRows, quantity: string, row: number): string {
  return ratio(rows.number(`student_${quantity}`, row), rows.number(`teacher_${quantity}`, row));
}

function element(tag: string, className: string, text: string): HTMLElement {
  const created = document.createElement(tag);
  created.className = className;
  created.textContent = text;
  return created;
}

function renderModule(
  cell: HTMLElement,
  rows: AuditRows,
  side: SideName,
  row: number,
  model: TableModel | null,
): void {
  const parts: HTMLElement[] = [];
  const isNested = model !== null && model.sortOrder === null && !model.isSearching;
  if (side === "teacher" && isNested) {
    const isExpandable = model.isExpandable(row);
    const toggle = element(isExpandable ? "button" : "span", "grid-toggle fold", "");
    if (isExpandable) {
      const isExpanded = model.isExpanded(row);
      toggle.textContent = isExpanded ? "▾" : "▸";
      toggle.setAttribute("aria-expanded", String(isExpanded));
      toggle.setAttribute("aria-label", isExpanded ? "Fold" : "Unfold");
      (toggle as HTMLButtonElement).type = "button";
      toggle.tabIndex = -1;
    }
    toggle.style.marginInlineStart = `${8 * Math.max(0, Math.min(8, model.depth(row) - 1))}px`;
    parts.push(toggle);
  }
  if (rows.hasSide(side, row)) {
    const call = rows.text(`${side}_call`, row);
    const path = isNested ? rows.nestedPath(side, row) : rows.path(side, row) || "(model)";
    parts.push(element("span", "", path));
    parts.push(element("span", "soft", ` ${rows.text(`${side}_class`, row)}${call && ` ${call}`}`));
    cell.dataset.tip = moduleText(rows, side, row);
  } else {
    parts.push(element("span", "soft", "·"));
    delete cell.dataset.tip;
  }
  cell.replaceChildren(...parts);
}

function verdictColumn(rows: AuditRows): TableColumn {
  const word = (row: number) => verdictStyle(rows.verdict(row)).word;
  return {
    id: "verdict",
    label: "verdict",
    width: 124,
    text: (row) => word(row),
    render: (cell, row) => {
      const style = verdictStyle(rows.verdict(row));
      const glyph = element("span", `kind tone-${style.tone}`, glyphOf(rows, row));
      glyph.setAttribute("aria-hidden", "true");
      const parts: HTMLElement[] = [glyph, element("span", "verdict-word", style.word)];
      const [worst] = [...rows.findings(row)].sort((a, b) => b.severity - a.severity);
      if (worst !== undefined) {
        const severity = severityStyle(worst.severity);
        parts.push(element("span", `mark tone-${severity.tone}`, severity.glyph));
      }
      cell.replaceChildren(...parts);
      const cause = rows.text("cause", row);
      cell.dataset.tip = [
        cause || style.meaning,
        ...rows.findings(row).map((finding) => finding.message),
      ].join("\n");
    },
  };
}

/** Unmatched rows say which side is there. */
function glyphOf(rows: AuditRows, row: number): string {
  const style = verdictStyle(rows.verdict(row));
  if (style.id !== "unmatched") return style.glyph;
  return rows.hasSide("student", row) ? "+" : "−";
}

function adapterColumn(rows: AuditRows): TableColumn {
  return {
    id: "adapter",
    label: "adapter",
    title: "What the student's feature needs before it can be compared; the button copies PyTorch code",
    width: 140,
    grow: 2,
    monospace: true,
    text: (row) => rows.text("adapter", row),
    render: (cell, row) => {
      const adapter = rows.text("adapter", row);
      const code = rows.text("adapter_code", row);
      cell.replaceChildren();
      delete cell.dataset.tip;
      if (adapter === "") return;
      if (code !== "") {
        const copy = element("button", "button copy", "") as HTMLButtonElement;
        copy.append(element("span", "copy-icon", ""));
        copy.type = "button";
        copy.tabIndex = -1;
        copy.setAttribute("aria-label", "Copy the adapter's code");
        copy.addEventListener("click", (event) => {
          event.stopPropagation();
          void copyText(code).then((copied) => {
            announce(copied ? "Copied" : "The browser did not allow copying");
            if (copied) copy.textContent = "✓";
          });
        });
        cell.append(copy);
      }
      cell.append(adapter);
      cell.dataset.tip = code || adapter;
    },
  };
}
