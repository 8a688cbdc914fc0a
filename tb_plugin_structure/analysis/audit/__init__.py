"""Shape audit: do the features of a teacher and a student meet, what is needed where they do not, and what else is
wrong before the first training step.

>>> report = audit(align(teacher=teacher_structure, student=student_structure))
>>> print(report.to_markdown())
>>> adapters = report.adapters(level="stage")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tb_plugin_structure.analysis.alignment.collector import collection_paused
from tb_plugin_structure.analysis.audit.adapter import Adapter as Adapter
from tb_plugin_structure.analysis.audit.compare import Comparison as Comparison
from tb_plugin_structure.analysis.audit.compare import Options
from tb_plugin_structure.analysis.audit.feature import Dimension as Dimension
from tb_plugin_structure.analysis.audit.feature import Feature as Feature
from tb_plugin_structure.analysis.audit.findings import Context, Settings, find
from tb_plugin_structure.analysis.audit.findings import Finding as Finding
from tb_plugin_structure.analysis.audit.findings import registered_rules as registered_rules
from tb_plugin_structure.analysis.audit.findings import rule as rule
from tb_plugin_structure.analysis.audit.report import AuditReport as AuditReport
from tb_plugin_structure.analysis.audit.report import Hook as Hook
from tb_plugin_structure.analysis.audit.rows import build_rows, stage_costs
from tb_plugin_structure.analysis.audit.side import Side

if TYPE_CHECKING:
    from tb_plugin_structure.records.measurement import Measurement
    from tb_plugin_structure.records.structure import Structure


def audit(
    alignment: Any,
    *,
    outside: Structure | None = None,
    measurements: Mapping[str, Measurement] | None = None,
    bias: bool | None = None,
    norm: bool = False,
    hooks: Iterable[Sequence[str]] = (),
    silence: Iterable[str] = (),
    severities: Mapping[str, str] | None = None,
) -> AuditReport:
    """Audit a teacher and a student.

    Args:
        alignment: What :func:`tb_plugin_structure.align` returns.
        outside: Record of what ran between the models in a recorded step; findings about the loss, and the features
            that it compared, need it.
        measurements: Measurements of the step, by "teacher" and "student"; findings about gradients need them.
        bias: Whether Linear adapters have a bias; None: as the student's own Linear modules.
        norm: Follow each learned adapter by a normalisation, and by a ReLU where the teacher's feature has one.
        hooks: (teacher path, student path) pairs that your loss or configuration hooks, as ``report.hooks()`` gives
            them; a path where nothing runs becomes a finding.
        silence: Findings to leave out: "rule-id", or "rule-id:pattern" for module paths ("dead-module:decoder.*").
        severities: Rule id -> "info", "warning" or "error".

    Raises:
        ValueError: When `silence` or `severities` name a rule or severity that does not exist.
    """
    settings = Settings(tuple(silence), dict(severities or {}))
    settings.check()
    with collection_paused():
        teacher, student = Side(alignment.teacher, "teacher"), Side(alignment.student, "student")
        options = Options(
            bias=student.linear_has_bias if bias is None else bias,
            norm=norm,
            text=teacher.reads_token_ids and student.reads_token_ids,
        )
        rows = build_rows(alignment, teacher, student, options)
        paths = [(str(teacher_path), str(student_path)) for teacher_path, student_path, *_ in hooks]
        context = Context(teacher, student, rows, outside, dict(measurements or {}), paths)
        stages = stage_costs(rows, teacher, student)
        return AuditReport(alignment, teacher, student, rows, stages, find(context, settings), outside)
