"""The report as Markdown, CSV and JSON. Numbers are exact in CSV and JSON, short in Markdown."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tb_plugin_structure.analysis.audit.stages import LEVEL_NAMES
from tb_plugin_structure.analysis.audit.wording import operator_text
from tb_plugin_structure.records.schema import AUDIT_ROWS, AUDIT_STAGES
from tb_plugin_structure.v1 import alignment_pb2, audit_pb2

if TYPE_CHECKING:
    from tb_plugin_structure.analysis.audit.report import AuditReport
    from tb_plugin_structure.analysis.audit.rows import Row
    from tb_plugin_structure.analysis.compared_features import ComparedFeatures

VERDICTS = {
    audit_pb2.VERDICT_MATCH: "match",
    audit_pb2.VERDICT_ADAPT: "adapt",
    audit_pb2.VERDICT_INCOMPATIBLE: "incompatible",
    audit_pb2.VERDICT_UNMATCHED: "unmatched",
}


def count_text(value: float) -> str:
    """1,234,567 as "1.23 M"; "?" for unknown."""
    if math.isnan(value):
        return "?"
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {unit}" if abs(value) < 1000 * factor else f"{value / factor:,.0f} {unit}"
    return f"{value:.0f}"


def ratio_text(student: float, teacher: float) -> str:
    """Student over teacher, "0.46×"; "" when either is unknown or the teacher's is 0."""
    if math.isnan(student) or math.isnan(teacher) or teacher == 0:
        return ""
    return f"{student / teacher:.2f}×"


def shape_text(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def rows_to_level(report: AuditReport, level: str) -> list[Row]:
    """Rows of the report down to a level, the model's own row included.

    Raises:
        ValueError: When there is no such level.
    """
    if level not in LEVEL_NAMES:
        raise ValueError(f"level is {level!r}, expected one of {', '.join(LEVEL_NAMES)}")
    return [row for row in report.rows if row.level <= LEVEL_NAMES.index(level)]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]], right: frozenset[int] = frozenset()) -> str:
    """A Markdown table; `right` are the columns aligned to the right."""
    lines = ["| " + " | ".join(head) + " |"]
    lines.append("|" + "|".join(" ---: " if place in right else " --- " for place in range(len(head))) + "|")
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


ROW_HEAD = ("stage", "teacher", "shape", "student", "shape", "verdict", "adapter", "params", "cause")


def row_cells(row: Row) -> list[str]:
    """The columns that text tables show."""
    classes = f" ({', '.join(row.comparison.classes)})" if row.comparison.classes else ""
    return [
        row.stage,
        _path(row.teacher),
        shape_text(row.teacher.shape) if row.teacher is not None else "",
        _path(row.student),
        shape_text(row.student.shape) if row.student is not None else "",
        VERDICTS[row.comparison.verdict] + classes,
        row.comparison.adapter.line() or "–",
        f"{row.comparison.adapter.parameters:,}" if row.comparison.adapter.parameters else "",
        row.cause,
    ]


def _path(feature: Any) -> str:
    if feature is None:
        return "–"
    path = feature.path or "(model)"
    if feature.calls > 1:
        path += f" (call {feature.ordinal + 1}/{feature.calls})"
    return path + (f" [{feature.element}]" if feature.element else "")


COMPARED_HEAD = ("operator", "teacher", "student", "shapes that met", "source")


def compared_cells(pair: ComparedFeatures) -> list[str]:
    """One pair of features that a loss compared: ``relu in layer2 [8, 128, 4, 4]`` on each side."""
    sides = [", ".join(map(str, features)) for features in (pair.teacher, pair.student)]
    shapes = [shape_text(shape) for shape in dict.fromkeys((pair.teacher_shape, pair.student_shape))]
    return [operator_text(pair.operator), *sides, " and ".join(shapes), pair.source]


_STAGE_QUANTITIES = (
    ("params", "parameters"),
    ("MACs", "macs"),
    ("activation bytes", "activation_bytes"),
    ("bytes for backward", "saved_bytes"),
    ("time", "duration_ns"),
)


def stage_table(report: AuditReport) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the totals of stages; bytes kept for the backward pass and times only where they were
    recorded."""
    shown = [
        (label, name)
        for label, name in _STAGE_QUANTITIES
        if name not in ("saved_bytes", "duration_ns") or any(not math.isnan(value) for value in _values(report, name))
    ]
    head = ["stage", *(text for label, _ in shown for text in (f"{label} T", f"{label} S", "S/T"))]
    rows = []
    for stage in report.stages:
        cells = [stage.stage]
        for _, name in shown:
            teacher, student = getattr(stage.teacher_cost, name), getattr(stage.student_cost, name)
            text = duration_text if name == "duration_ns" else count_text
            cells += [
                "–" if math.isnan(cost.parameters) else text(value)  # the model has no such stage
                for cost, value in ((stage.teacher_cost, teacher), (stage.student_cost, student))
            ]
            cells.append(ratio_text(student, teacher))
        rows.append(cells)
    return head, rows


def _values(report: AuditReport, quantity: str) -> list[float]:
    return [getattr(side, quantity) for stage in report.stages for side in (stage.teacher_cost, stage.student_cost)]


def not_recorded(report: AuditReport) -> str:
    """A sentence about what the records do not hold; "" when nothing is missing."""
    structures = [side.structure for side in (report.teacher, report.student)]
    missing = [
        text
        for text, is_there in (
            ("times", all(structure.header.totals.duration_ns for structure in structures)),
            # A model without gradients keeps nothing: 0 is then an answer.
            ("what autograd keeps", all("saved_bytes" in structure.operators for structure in structures)),
            ("peaks", all("peak_bytes" in structure.module_calls for structure in structures)),
        )
        if not is_there
    ]
    return f"Not recorded: {', '.join(missing)} (capture with time=True, memory=True)." if missing else ""


def duration_text(nanoseconds: float) -> str:
    """1,234,567 ns as "1.23 ms"; "?" for unknown."""
    if math.isnan(nanoseconds):
        return "?"
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= factor:
            return f"{nanoseconds / factor:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def markdown_text(report: AuditReport, level: str) -> str:
    teacher, student = report.teacher.structure, report.student.structure
    parts = [f"# Shape audit: {teacher.name} → {student.name}", report.summary(), report.memory().text() + "."]
    parts += [missing] if (missing := not_recorded(report)) else []
    if report.findings:
        parts += [
            "## Findings",
            markdown_table(
                ("severity", "rule", "where", "what", "fix"),
                [
                    (f.severity, f.rule, f"{f.subject} {f.module_path}".strip(), f.message, f.fix)
                    for f in report.findings
                ],
            ),
        ]
    if report.compared:
        parts += ["## Compared by the loss", markdown_table(COMPARED_HEAD, map(compared_cells, report.compared))]
    head, stages = stage_table(report)
    parts += [
        "## Stages",
        markdown_table(head, stages, right=frozenset(range(1, len(head)))),
        "## Pairs",
        markdown_table(ROW_HEAD, map(row_cells, rows_to_level(report, level)), right=frozenset({7})),
    ]
    return "\n\n".join(parts) + "\n"


def _readable(name: str, value: Any) -> Any:
    """Enumerations by name, numbers as JSON can hold them."""
    if name == "verdict":
        return VERDICTS[value]
    if name == "level":
        return LEVEL_NAMES[value]
    if name == "kind":
        return alignment_pb2.PairKind.Name(value).removeprefix("PAIR_KIND_").lower()
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else round(value, 6)
    return list(value) if isinstance(value, tuple) else value


def csv_text(report: AuditReport) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = report.columns()
    names = [field.name for field in AUDIT_ROWS]
    writer.writerow(names)
    for values in zip(*(columns[name] for name in names), strict=True):
        writer.writerow([_flat(_readable(name, value)) for name, value in zip(names, values, strict=True)])
    return out.getvalue()


def _flat(value: Any) -> Any:
    if isinstance(value, list):
        return ("×" if value and isinstance(value[0], int) else " | ").join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return "'" + value  # a spreadsheet would take it for a formula
    return "" if value is None else value


def json_value(report: AuditReport) -> dict[str, Any]:
    """The report as JSON values."""
    columns = report.columns()
    names = [field.name for field in AUDIT_ROWS]
    return {
        "summary": report.summary(),
        "teacher": report.teacher.structure.name,
        "student": report.student.structure.name,
        "training_memory": {**report.memory()._asdict(), "total": report.memory().total},
        "findings": [asdict(finding) for finding in report.findings],
        "compared": [pair.to_dict() for pair in report.compared],
        "stages": [
            {field.name: _readable(field.name, value) for field, value in zip(AUDIT_STAGES, cells, strict=True)}
            for cells in report.stage_rows()
        ],
        "rows": [
            {name: _readable(name, value) for name, value in zip(names, values, strict=True)}
            for values in zip(*(columns[name] for name in names), strict=True)
        ],
    }


def json_text(report: AuditReport) -> str:
    return json.dumps(json_value(report), indent=1, ensure_ascii=False) + "\n"
