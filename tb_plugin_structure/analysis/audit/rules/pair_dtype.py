"""Teacher and student give values of different dtypes."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.compare import UNMATCHED
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule


@rule(
    "pair-dtype",
    severity="info",
    explanation="A loss between two floating types is computed in one of them; adapters are made in float32.",
    fix="Cast both features to float32 in the loss.",
)
def pair_dtype(context: Context) -> Iterator[Finding]:
    for index, row in enumerate(context.rows):
        if row.verdict == UNMATCHED or "dtype" not in row.comparison.classes:
            continue
        if row.teacher is not None and row.student is not None:
            yield Finding(
                f"{row.teacher_path or 'the teacher'} gives {row.teacher.dtype}, {row.student_path or 'the student'} "
                f"{row.student.dtype}",
                module_path=row.student_path,
                row=index,
            )
            return  # once: the rows say the rest
