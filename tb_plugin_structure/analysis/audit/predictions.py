"""Outputs of the two models that predict over different numbers of things."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context
from tb_plugin_structure.analysis.audit.rows import Row
from tb_plugin_structure.analysis.audit.stages import MODEL


def outputs_that_differ(context: Context, mismatch: str) -> Iterator[tuple[int, Row, int, int]]:
    """(index, row, teacher size, student size) of the models' outputs that differ in the last dimension."""
    for index, row in enumerate(context.rows):
        if row.level != MODEL or mismatch not in row.comparison.classes:
            continue
        if row.teacher is not None and row.student is not None and row.teacher.shape and row.student.shape:
            teacher, student = row.teacher.shape[-1], row.student.shape[-1]
            if teacher != student:
                yield index, row, teacher, student
