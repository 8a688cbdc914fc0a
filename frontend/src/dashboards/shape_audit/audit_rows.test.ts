import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { AuditSchema, Severity, Verdict } from "../../gen/tb_plugin_structure/v1/audit_pb";
import { TableModel } from "../../table/table_model";
import { Columns } from "../../wire/columns";
import { Strings } from "../../wire/strings";
import { TableFixture } from "../../wire/table_fixture";
import { auditColumns } from "./audit_columns";
import { AuditRows } from "./audit_rows";

/** ResNet-50 → ResNet-18 in small: the model, layer1 with one block and a leaf, the teacher's extra block, fc. */
function resnetAudit(layer1 = "layer1"): AuditRows {
  const fixture = new TableFixture();
  const rows = fixture.table("rows", {
    pair: [0, 1, 2, 3, 4, 5],
    teacher: [0, 1, 2, 3, 9, 20],
    student: [0, 1, 2, 3, -1, 12],
    level: [0, 1, 2, 3, 2, 1],
    stage: ["", layer1, layer1, layer1, layer1, "fc"],
    teacher_path: ["", layer1, `${layer1}.2`, `${layer1}.2.conv1`, `${layer1}.0`, "fc"],
    student_path: ["", layer1, `${layer1}.1`, `${layer1}.1.conv1`, "", "fc"],
    teacher_class: ["ResNet", "Sequential", "Bottleneck", "Conv2d", "Bottleneck", "Linear"],
    student_class: ["ResNet", "Sequential", "BasicBlock", "Conv2d", "", "Linear"],
    kind: [2, 2, 4, 2, 6, 2],
    confidence: [1, 1, 0.9, 0.8, 0.7, 1],
    teacher_shape: [
      [2, 1000],
      [2, 256, 56, 56],
      [2, 256, 56, 56],
      [2, 64, 56, 56],
      [2, 256, 56, 56],
      [2, 1000],
    ],
    student_shape: [[2, 1000], [2, 64, 56, 56], [2, 64, 56, 56], [2, 64, 56, 56], [], [2, 1000]],
    teacher_element: ["", "", "", "", "", ""],
    student_element: ["", "", "", "", "", ""],
    teacher_dimensions: [
      ["batch", "classes"],
      ["batch", "channels", "height", "width"],
      ["batch", "channels", "height", "width"],
      ["batch", "channels", "height", "width"],
      ["batch", "channels", "height", "width"],
      ["batch", "classes"],
    ],
    student_dimensions: [
      ["batch", "classes"],
      ["batch", "channels", "height", "width"],
      ["batch", "channels", "height", "width"],
      ["batch", "channels", "height", "width"],
      [],
      ["batch", "classes"],
    ],
    teacher_dtype: ["float32", "float32", "float32", "float32", "float32", "float32"],
    student_dtype: ["float32", "float32", "float32", "float32", "", "float32"],
    teacher_device: ["cpu", "cpu", "cpu", "cpu", "cpu", "cpu"],
    student_device: ["cpu", "cpu", "cpu", "cpu", "", "cpu"],
    teacher_call: ["", "", "", "", "", "2 of 3"],
    student_call: ["", "", "", "", "", ""],
    teacher_sizes: [[], ["batch 2", "channels 256"], [], [], [], []],
    student_sizes: [[], ["batch 2", "channels 64"], [], [], [], []],
    verdict: [1, 2, 2, 1, 4, 1],
    classes: [[], ["channels"], ["channels"], [], [], []],
    adapter: ["", "Conv1x1(64->256)", "Conv1x1(64->256)", "", "", ""],
    adapter_code: ["", "nn.Conv2d(64, 256, 1)", "nn.Conv2d(64, 256, 1)", "", "", ""],
    adapter_parameters: [0, 16384, 16384, 0, 0, 0],
    cause: ["", "", "", "", "", ""],
    teacher_parameters: [25557032, 215808, 70400, 4096, 75008, 2049000],
    student_parameters: [11689512, 147968, 73984, 36864, 0, 513000],
    teacher_macs: [4089184256, 667942912, 218365952, Number.NaN, 231211008, 2048000],
    student_macs: [1814073344, 462422016, 231211008, 115605504, Number.NaN, 512000],
    teacher_activation_bytes: [1, 1, 1, 1, 1, 1],
    student_activation_bytes: [1, 1, 1, 1, 0, 1],
  });
  const stages = fixture.table("stages", {
    stage: [layer1, "fc"],
    teacher_parameters: [215808, 2049000],
    student_parameters: [147968, 513000],
    teacher_macs: [667942912, 2048000],
    student_macs: [462422016, 512000],
    teacher_activation_bytes: [10, 1],
    student_activation_bytes: [5, 1],
  });
  const message = create(AuditSchema, {
    summary: "",
    strings: fixture.pool(),
    findings: [
      { rule: "teacher-trainable", severity: Severity.WARNING, message: "still trainable", row: 1 },
      { rule: "loss", severity: Severity.ERROR, message: "loss", row: -1 },
    ],
  });
  const strings = new Strings(message.strings);
  return new AuditRows({ message, rows: new Columns(rows, strings), stages: new Columns(stages, strings) });
}

describe("the rows of an audit", () => {
  const rows = resnetAudit();

  it("nests blocks under their stage and leaves under their block", () => {
    expect([...rows.parentOf]).toEqual([-1, 0, 1, 2, 1, 0]);
  });

  it("keeps the end of a path that a column would cut: the number of the block", () => {
    const encoder = resnetAudit("encoder.layer1");
    expect(encoder.nestedPath("teacher", 2)).toBe("…2");
    expect(encoder.nestedPath("student", 3)).toBe("…conv1");
    expect(rows.nestedPath("teacher", 2)).toBe("layer1.2");
  });

  it("numbers stages in execution order", () => {
    expect(rows.stages).toEqual(["", "layer1", "fc"]);
    expect([...rows.stageOf]).toEqual([0, 1, 1, 1, 1, 2]);
    expect(rows.stageTotal("student", "parameters", 1)).toBe(147968);
    expect(rows.stageTotal("student", "parameters", 0)).toBeNaN();
  });

  it("divides student by teacher, and says nothing where one is unknown or absent", () => {
    expect(rows.ratio("parameters", 1)).toBeCloseTo(0.6856, 4);
    expect(rows.ratio("macs", 3)).toBeNaN();
    expect(rows.ratio("macs", 4)).toBeNaN();
  });

  it("finds the row of a place on either side", () => {
    expect(rows.rowAt("S:layer1.1")).toBe(2);
    expect(rows.rowAt("T:layer1.0")).toBe(4);
    expect(rows.rowAt("S:nowhere")).toBe(-1);
    expect(rows.rowAt("")).toBe(-1);
    expect(rows.place(2)).toBe("S:layer1.1");
    expect(rows.place(4)).toBe("T:layer1.0");
  });

  it("counts what the report's sentence counts: not the model's own row", () => {
    const counted = [0, 1, 2, 3, 4, 5].filter((row) => rows.isCounted(row));
    expect(counted).toEqual([1, 2, 3, 4, 5]);
  });

  it("hands a row its findings", () => {
    expect(rows.findings(1).map((finding) => finding.rule)).toEqual(["teacher-trainable"]);
    expect(rows.findings(0)).toEqual([]);
  });

  it("names the dimensions", () => {
    expect(rows.dimensions("teacher", 1)[1]).toEqual({ name: "channels", size: 256, text: "channels 256" });
    expect(rows.verdict(1)).toBe(Verdict.ADAPT);
  });
});

describe("the columns of the audit table", () => {
  const rows = resnetAudit();
  const columns = auditColumns(rows, () => null);
  const column = (id: string) => columns.find((candidate) => candidate.id === id)!;

  it("read as the worked example does", () => {
    const line = ["teacher", "teacher_shape", "student", "student_shape", "verdict", "classes", "adapter"]
      .concat(["adapter_parameters", "parameters", "macs"])
      .map((id) => column(id).text(1));
    expect(line).toEqual([
      "layer1 Sequential",
      "2×256×56×56",
      "layer1 Sequential",
      "2×64×56×56",
      "adapt",
      "channels",
      "Conv1x1(64->256)",
      "16.4 k",
      "0.69 ×",
      "0.69 ×",
    ]);
  });

  it("leave blank what an unmatched row does not have", () => {
    expect(column("student").text(4)).toBe("");
    expect(column("student_shape").text(4)).toBe("");
    expect(column("adapter_parameters").number?.(4)).toBeNaN();
  });

  it("say which call of a module it is", () => {
    expect(column("teacher").text(5)).toBe("fc Linear call 2 of 3");
  });

  it("show a stage's ratio in its heading", () => {
    expect(column("parameters").groupText?.(1)).toBe("0.69 ×");
    expect(column("parameters").groupText?.(0)).toBe("");
  });

  it("mark the verdict by glyph and word, and a finding beside it", () => {
    const cell = document.createElement("div");
    column("verdict").render?.(cell, 1);
    expect(cell.textContent).toBe("↔adapt!");
    column("verdict").render?.(cell, 4);
    expect(cell.textContent).toBe("−unmatched");
  });

  it("fold leaves under their block in a table", () => {
    const model = new TableModel({
      rowCount: rows.count,
      columns,
      grouping: { labels: rows.stages, groupOf: rows.stageOf },
      parentOf: rows.parentOf,
      shownAtRest: (row) => rows.level(row) <= rows.defaultLevel(),
    });
    expect([...model.items()]).toEqual([0, -2, 1, 2, 4, 5]);
    expect(model.isExpandable(2)).toBe(true);
  });
});
