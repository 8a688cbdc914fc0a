"""The audit's answer: rows, stage totals and findings, as a message, as text, and as what a training script needs."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tb_plugin_structure.analysis.alignment.collector import collection_paused
from tb_plugin_structure.analysis.audit.columns import RowColumns
from tb_plugin_structure.analysis.audit.compare import ADAPT, INCOMPATIBLE, MATCH, UNMATCHED
from tb_plugin_structure.analysis.audit.costs import Cost
from tb_plugin_structure.analysis.audit.feature import CLASSES, HEIGHT, LENGTH, VOCABULARY
from tb_plugin_structure.analysis.audit.findings import Finding
from tb_plugin_structure.analysis.audit.formats import csv_text, json_text, markdown_text
from tb_plugin_structure.analysis.audit.memory import TrainingMemory, training_memory
from tb_plugin_structure.analysis.audit.rows import MODEL_STAGE, Row, StageCost
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.stages import BLOCK, LEVEL_NAMES, MODEL, STAGE
from tb_plugin_structure.analysis.compared_features import ComparedFeatures, compared_features
from tb_plugin_structure.records.schema import AUDIT_ROWS, AUDIT_STAGES
from tb_plugin_structure.records.strings import StringPool
from tb_plugin_structure.records.table import columns_from_rows, encode_table
from tb_plugin_structure.v1 import audit_pb2

if TYPE_CHECKING:
    from torch import nn

    from tb_plugin_structure.records.structure import Structure

_SEVERITIES = {
    "info": audit_pb2.SEVERITY_INFO,
    "warning": audit_pb2.SEVERITY_WARNING,
    "error": audit_pb2.SEVERITY_ERROR,
}


class _Triple(NamedTuple):
    teacher_path: str
    student_path: str
    element: str


class Hook(_Triple):
    """A pair of features to record in a training loop: ``for teacher_path, student_path, element in report.hooks()``.

    Paths are "" for the model itself. ``element`` is the element of the output on both sides, "" for a single tensor;
    where the sides differ it is the student's, and the two have their own attributes.

    Attributes:
        teacher_element: Element of the teacher's output.
        student_element: Element of the student's output.
        teacher_call: Which call of the teacher's module in one forward pass, from 0.
        student_call: Which call of the student's module.
        level: "model", "stage", "block" or "leaf".
    """

    teacher_element: str
    student_element: str
    teacher_call: int
    student_call: int
    level: str

    @classmethod
    def of(cls, row: Row) -> Hook:
        """The hook of a row that has both sides."""
        assert row.teacher is not None
        assert row.student is not None
        hook = cls(row.teacher.path, row.student.path, row.student.element)
        hook.teacher_element, hook.student_element = row.teacher.element, row.student.element
        hook.teacher_call, hook.student_call = row.teacher.ordinal, row.student.ordinal
        hook.level = LEVEL_NAMES[row.level]
        return hook


class AuditReport:
    """What :func:`audit` returns. ``rows``, ``stages`` and ``findings`` are lists of plain objects."""

    def __init__(
        self,
        alignment: Any,
        teacher: Side,
        student: Side,
        rows: list[Row],
        stages: list[StageCost],
        findings: list[Finding],
        outside: Structure | None = None,
    ) -> None:
        self.alignment = alignment
        self.teacher, self.student = teacher, student
        self.rows, self.stages, self.findings = rows, stages, findings
        self._outside = outside

    def row(self, student_path: str, level: str | None = None) -> Row:
        """The first row of a student's module.

        Raises:
            KeyError: When there is none; the message names the nearest paths.
        """
        for row in self.rows:
            fits = level is None or LEVEL_NAMES[row.level] == level
            if fits and row.student is not None and row.student_path == student_path:
                return row
        near = difflib.get_close_matches(student_path, [row.student_path for row in self.rows], 3)
        raise KeyError(f"no row for the student's module {student_path!r}; nearest: {', '.join(near) or 'none'}")

    def summary(self) -> str:
        """One sentence a person could say aloud."""
        shown = [row for row in self.rows if row.level in (STAGE, BLOCK)]
        shown = shown or [row for row in self.rows if row.level != MODEL] or self.rows
        counted = Counter(
            row.verdict for row in shown if row.verdict != INCOMPATIBLE or row.comparison.is_refused_feature
        )
        total = sum(counted[verdict] for verdict in (MATCH, ADAPT, INCOMPATIBLE))
        if not total:
            said = "No module of the student has a counterpart in the teacher"
        elif counted[MATCH] == total:
            said = f"All {total} paired stages and blocks match as they are" if total > 1 else "The only pair matches"
        else:
            said = f"Of {total} paired stages and blocks {counted[MATCH]} match as they are"
            if counted[ADAPT]:
                said += f", {counted[ADAPT]} need an adapter"
            if counted[INCOMPATIBLE]:
                said += f", {counted[INCOMPATIBLE]} cannot be adapted honestly"
        for side, other in (("teacher", "student"), ("student", "teacher")):
            alone = sum(getattr(row, other) is None for row in shown if row.verdict == UNMATCHED)
            if alone:
                said += f"; {alone} only in the {side}"
        ratios = [
            f"{self.student.total(name) / self.teacher.total(name):.2f} × {text}"
            for name, text in (("parameters", "parameters"), ("macs", "MACs"))
            if self.teacher.total(name) and self.student.total(name)
        ]
        return said + ("; " + ", ".join(ratios) if ratios else "") + "."

    @cached_property
    def compared(self) -> list[ComparedFeatures]:
        """The pairs of features that the loss of the recorded step really compared; empty without such a step."""
        if self._outside is None:
            return []
        return compared_features(self._outside, teacher=self.teacher.structure, student=self.student.structure)

    def memory(self) -> TrainingMemory:
        """Bytes that training the student beside the teacher takes, at the recorded batch size."""
        return training_memory(self.teacher.structure.header.totals, self.student.structure.header.totals)

    # ---- for the wire and for files

    def columns(self) -> Mapping[str, list[Any]]:
        """The rows as columns, as declared in ``records.schema.AUDIT_ROWS``; each is made when it is asked for."""
        return RowColumns(self.rows)

    def stage_rows(self) -> list[list[Any]]:
        """The totals of stages, one list a stage, as declared in ``records.schema.AUDIT_STAGES``."""
        return [[stage.stage, *_both_costs(stage.teacher_cost, stage.student_cost)] for stage in self.stages]

    @collection_paused()
    def to_proto(self) -> audit_pb2.Audit:
        """The message of the route ``api/audit``."""
        pool = StringPool()
        audit = audit_pb2.Audit(
            summary=self.summary(),
            teacher=self.teacher.structure.name,
            student=self.student.structure.name,
            teacher_totals=self.teacher.structure.header.totals,
            student_totals=self.student.structure.header.totals,
            rows=encode_table("rows", AUDIT_ROWS, self.columns(), pool),
            stages=encode_table("stages", AUDIT_STAGES, columns_from_rows(AUDIT_STAGES, self.stage_rows()), pool),
        )
        for finding in self.findings:
            audit.findings.add(
                rule=finding.rule,
                severity=_SEVERITIES[finding.severity],
                message=finding.message,
                explanation=finding.explanation,
                fix=finding.fix,
                subject=finding.subject,
                module_path=finding.module_path,
                row=finding.row,
            )
        memory = self.memory()
        audit.training_memory.CopyFrom(audit_pb2.TrainingMemory(total=memory.total, **memory._asdict()))
        audit.strings.CopyFrom(pool.to_proto())
        return audit

    def to_markdown(self, level: str = "block") -> str:
        """Tables of findings, stages and rows down to a level ("stage", "block" or "leaf")."""
        return markdown_text(self, level)

    def to_csv(self) -> str:
        """All rows and columns, lists joined by spaces or " | "."""
        return csv_text(self)

    def to_json(self) -> str:
        """Summary, rows, stages and findings; stable, so that two reports can be compared by diff."""
        return json_text(self)

    # ---- for training

    def selected(self, level: str | Sequence[str] | None = None, paths: Sequence[str] | None = None) -> list[Row]:
        """Rows that can be compared (match or adapt), one a student call: of a level, or of these student paths.

        `level` is "model", "stage", "block", "leaf", several of them, None for all, or "main": the features that
        distillation usually compares, which are the ends of a CNN's stages and the blocks of a transformer.

        Raises:
            ValueError: When a level does not exist, or a path has no comparable row (the message gives the reason).
            KeyError: When the student has no such path.
        """
        if level == "main":
            return self._main(paths)
        levels = [level] if isinstance(level, str) else level
        for name in levels or ():
            if name not in LEVEL_NAMES:
                raise ValueError(f"level is {name!r}, expected one of {', '.join(LEVEL_NAMES)}")
        chosen: dict[tuple[str, int], Row] = {}
        for row in self.rows:
            if row.verdict not in (MATCH, ADAPT) or row.student is None or row.student.tensor < 0:
                continue
            if levels is not None and LEVEL_NAMES[row.level] not in levels:
                continue
            if paths is not None and row.student_path not in paths:
                continue
            key = (row.student_path, row.student.ordinal)
            best = chosen.get(key)
            if best is None or row.pair.confidence > best.pair.confidence:
                chosen[key] = row
        if paths is not None:
            found = {path for path, _ in chosen}
            for path in paths:
                if path not in found:
                    refused = next(
                        (row for row in self.rows if row.student is not None and row.student_path == path), None
                    )
                    reason = self.row(path).cause if refused is None else refused.cause  # KeyError: nearest paths
                    raise ValueError(f"{path!r} cannot be compared with the teacher: {reason}")
        return list(chosen.values())

    def _main(self, paths: Sequence[str] | None) -> list[Row]:
        rows = [row for row in self.selected(("stage", "block"), paths) if row.stage != MODEL_STAGE]
        calls = self.student.structure.call_children
        blocks: dict[str, list[Row]] = {}
        for row in rows:
            if row.level == BLOCK:
                blocks.setdefault(row.stage, []).append(row)
        sequences = {
            stage
            for stage, members in blocks.items()
            if all(row.student is not None and not {HEIGHT, LENGTH} & set(row.student.names) for row in members)
        }
        chosen = [
            row
            for row in rows
            if (row.level == BLOCK) == (row.stage in sequences) and calls[row.pair.student] and not _predicts(row)
        ]
        return chosen or [row for row in rows if not _predicts(row)]

    def hooks(self, level: str | Sequence[str] | None = None, paths: Sequence[str] | None = None) -> list[Hook]:
        """The pairs of features to record, in the student's execution order. Selected as in :meth:`selected`."""
        return [Hook.of(row) for row in self.selected(level, paths) if row.teacher is not None]

    def adapters(
        self,
        level: str | Sequence[str] | None = None,
        paths: Sequence[str] | None = None,
        **factory: Any,
    ) -> nn.ModuleDict:
        """Modules that make the shapes meet, from student to teacher: keys are student paths with "/" for ".".

        A pair that needs none is absent; :meth:`selected` chooses. `factory` may hold ``device`` and ``dtype``.
        """
        from tb_plugin_structure.distill.adapters import build_adapters  # torch is needed from here on

        return build_adapters(self, level=level, paths=paths, **factory)

    def configuration(self, framework: str, level: str | Sequence[str] | None = "main") -> dict[str, Any]:
        """The pairs as configuration of "torchdistill", "textbrewer", "mmrazor" or "modelopt".

        Raises:
            ValueError: When the framework is none of these.
        """
        from tb_plugin_structure.analysis.audit.configurations import configuration

        return configuration(self, framework, level)

    @cached_property
    def adapter_parameters(self) -> int:
        """Parameters of all stage-level adapters together."""
        return sum(row.comparison.adapter.parameters for row in self.rows if row.level == STAGE)

    def __repr__(self) -> str:
        return f"AuditReport({self.summary()!r}, {len(self.rows)} rows, {len(self.findings)} findings)"


def _predicts(row: Row) -> bool:
    return row.student is not None and bool({CLASSES, VOCABULARY} & set(row.student.names))


def _both_costs(teacher: Cost, student: Cost) -> list[float]:
    """Teacher's and student's values in turn, in the order of the columns."""
    return [value for pair in zip(teacher, student, strict=True) for value in pair]
