"""The models predict over different sets of classes."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.predictions import outputs_that_differ


@rule(
    "classes-differ",
    severity="warning",
    explanation="Logits over different sets of classes cannot be compared.",
    fix="Give the student the teacher's classes, map them by name, or distill features only.",
)
def classes_differ(context: Context) -> Iterator[Finding]:
    for index, row, teacher, student in outputs_that_differ(context, "classes"):
        assert row.teacher is not None
        assert row.student is not None
        kinds = [side.names[-1] for side in (row.teacher, row.student)]
        if kinds[0] == kinds[1]:
            yield Finding(f"{teacher:,} outputs in the teacher, {student:,} in the student", row=index)
        else:
            said = [f"{size:,} {kind}" for size, kind in zip((teacher, student), kinds, strict=True)]
            yield Finding(
                f"the teacher returns {said[0]}, the student {said[1]}: one of them has no classifier", row=index
            )
