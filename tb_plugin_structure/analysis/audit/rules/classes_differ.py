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
    for index, _, teacher, student in outputs_that_differ(context, "classes"):
        yield Finding(f"{teacher:,} outputs in the teacher, {student:,} in the student", row=index)
