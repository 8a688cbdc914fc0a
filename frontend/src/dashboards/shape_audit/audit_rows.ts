import { type Audit, type Finding, Verdict } from "../../gen/tb_plugin_structure/v1/audit_pb";
import type { DecodedAudit } from "../../wire/audit";

export type SideName = "teacher" | "student";

/** One dimension of an output: its size and what it means ("batch", "channels" …). */
export interface Dimension {
  readonly name: string;
  readonly size: number;
  /** For people: "tokens 197 = 1 + 14x14", "height 56 = (H + 3)//4" where the record knows it. */
  readonly text: string;
}

export const LEVELS = ["model", "stage", "block", "leaf"] as const;

const LONGEST_FULL_PATH = 14;

/** The rows of an audit, addressed by number; nothing is copied out of the received columns. */
export class AuditRows {
  readonly message: Audit;
  readonly count: number;
  readonly stages: readonly string[];
  /** Stage number of each row. */
  readonly stageOf: Int32Array;
  /** The row of the enclosing module, −1 for none. */
  readonly parentOf: Int32Array;
  private readonly stageTotals = new Map<string, number>();
  private readonly rowOfTeacher = new Map<string, number>();
  private readonly rowOfStudent = new Map<string, number>();
  private readonly findingsOfRow = new Map<number, Finding[]>();
  private readonly recorded = new Map<string, boolean>();

  constructor(private readonly audit: DecodedAudit) {
    this.message = audit.message;
    this.count = audit.rows.rows;
    const stageNumbers = new Map<string, number>();
    this.stageOf = new Int32Array(this.count);
    this.parentOf = new Int32Array(this.count).fill(-1);
    for (let row = 0; row < this.count; row++) {
      const stage = this.text("stage", row);
      const known = stageNumbers.get(stage);
      this.stageOf[row] = known ?? stageNumbers.size;
      if (known === undefined) stageNumbers.set(stage, stageNumbers.size);
      this.parentOf[row] = this.findParent(row);
      if (this.hasSide("teacher", row)) this.rowOfTeacher.set(this.path("teacher", row), row);
      if (this.hasSide("student", row)) this.rowOfStudent.set(this.path("student", row), row);
    }
    this.stages = [...stageNumbers.keys()];
    for (let stage = 0; stage < audit.stages.rows; stage++) {
      this.stageTotals.set(audit.stages.text("stage", stage), stage);
    }
    for (const finding of audit.message.findings) {
      if (finding.row < 0) continue;
      const known = this.findingsOfRow.get(finding.row);
      if (known === undefined) this.findingsOfRow.set(finding.row, [finding]);
      else known.push(finding);
    }
  }

  text(column: string, row: number): string {
    return this.audit.rows.text(column, row);
  }

  texts(column: string, row: number): string[] {
    return this.audit.rows.texts(column, row);
  }

  number(column: string, row: number): number {
    return this.audit.rows.number(column)[row] ?? Number.NaN;
  }

  /** Whether either record holds a quantity; an answer of an older server has no column for the newer ones. */
  isRecorded(quantity: string): boolean {
    const known = this.recorded.get(quantity);
    if (known !== undefined) return known;
    const isKnown = (["teacher", "student"] as const).some((side) => {
      const column = `${side}_${quantity}`;
      return (
        this.audit.rows.has(column) && this.audit.rows.number(column).some((value) => !Number.isNaN(value))
      );
    });
    this.recorded.set(quantity, isKnown);
    return isKnown;
  }

  /** Each dimension as an expression of the input's; empty when the record has none. */
  symbols(side: SideName, row: number): string[] {
    return this.audit.rows.has(`${side}_symbols`) ? this.texts(`${side}_symbols`, row) : [];
  }

  hasSide(side: SideName, row: number): boolean {
    return this.number(side, row) >= 0;
  }

  path(side: SideName, row: number): string {
    return this.text(`${side}_path`, row);
  }

  /**
   * The path as a nested row shows it: below the row that contains it a long path is told by its end, which is what
   * tells it from its siblings.
   */
  nestedPath(side: SideName, row: number): string {
    const path = this.path(side, row);
    const parent = this.parentOf[row] ?? -1;
    if (path.length <= LONGEST_FULL_PATH || parent < 0 || !this.hasSide(side, parent))
      return path || "(model)";
    const above = `${this.path(side, parent)}.`;
    return path.startsWith(above) ? `…${path.slice(above.length)}` : path;
  }

  shape(side: SideName, row: number): number[] {
    return Array.from(this.audit.rows.row(`${side}_shape`, row));
  }

  dimensions(side: SideName, row: number): Dimension[] {
    const names = this.texts(`${side}_dimensions`, row);
    const texts = this.texts(`${side}_sizes`, row);
    const symbols = this.symbols(side, row);
    return this.shape(side, row).map((size, position) => ({
      size,
      name: names[position] || "?",
      text: withSymbol(texts[position] ?? "", size, symbols[position] ?? ""),
    }));
  }

  verdict(row: number): Verdict {
    return this.number("verdict", row) as Verdict;
  }

  level(row: number): number {
    return this.number("level", row);
  }

  /**
   * Whether a row counts in sums of verdicts, as the report's summary has them: the model's own row repeats what its
   * parts say, and values that no input reaches (tables of positions) are nobody's obstacle.
   */
  isCounted(row: number): boolean {
    if (this.level(row) === 0) return this.count === 1;
    return this.verdict(row) !== Verdict.INCOMPATIBLE || !this.texts("classes", row).includes("constant");
  }

  findings(row: number): readonly Finding[] {
    return this.findingsOfRow.get(row) ?? [];
  }

  /** Student ÷ teacher of "parameters", "macs" or "activation_bytes"; NaN where it has no meaning. */
  ratio(quantity: string, row: number): number {
    return divide(this.number(`student_${quantity}`, row), this.number(`teacher_${quantity}`, row));
  }

  /** A total of a stage, NaN when unknown. */
  stageTotal(side: SideName, quantity: string, stage: number): number {
    const row = this.stageTotals.get(this.stages[stage] ?? "");
    const column = `${side}_${quantity}`;
    return row === undefined || !this.audit.stages.has(column)
      ? Number.NaN
      : (this.audit.stages.number(column)[row] ?? Number.NaN);
  }

  /** The row of a place such as "S:layer1.0"; −1 when there is none. */
  rowAt(place: string): number {
    const rows = place.startsWith("T:") ? this.rowOfTeacher : this.rowOfStudent;
    return /^[TS]:/.test(place) ? (rows.get(place.slice(2)) ?? -1) : -1;
  }

  /** The place of a row, the student's side where it has one. */
  place(row: number): string {
    if (row < 0) return "";
    return this.hasSide("student", row) ? `S:${this.path("student", row)}` : `T:${this.path("teacher", row)}`;
  }

  /** The most detailed level that is worth showing at first: blocks, or leaves in a model without blocks. */
  defaultLevel(): number {
    for (let row = 0; row < this.count; row++) {
      const level = this.level(row);
      if (level === 1 || level === 2) return 2;
    }
    return 3;
  }

  /** A row comes after the module that contains it: the nearest enclosing path that was seen. */
  private findParent(row: number): number {
    for (const side of ["student", "teacher"] as const) {
      if (!this.hasSide(side, row)) continue;
      const rows = side === "student" ? this.rowOfStudent : this.rowOfTeacher;
      for (let path = this.path(side, row); path !== ""; ) {
        path = path.slice(0, Math.max(0, path.lastIndexOf(".")));
        const parent = rows.get(path);
        if (parent !== undefined) return parent;
      }
    }
    return -1;
  }
}

/** A dimension's text with its expression of the input's dimensions, where that says more than the size. */
function withSymbol(text: string, size: number, symbol: string): string {
  return symbol === "" || symbol === String(size) || text.includes("=") ? text : `${text} = ${symbol}`;
}

export function divide(student: number, teacher: number): number {
  return teacher > 0 ? student / teacher : Number.NaN;
}
