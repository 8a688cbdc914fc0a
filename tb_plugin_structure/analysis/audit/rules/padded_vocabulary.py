"""The vocabularies differ by padding."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.forms import is_padding
from tb_plugin_structure.analysis.audit.predictions import outputs_that_differ


@rule(
    "padded-vocabulary",
    severity="warning",
    explanation="The sizes differ by padding: a loss over logits either crashes or compares ids that no token has.",
    fix="If the tokenizers are equal, cut both logits to the smaller vocabulary in the loss.",
)
def padded_vocabulary(context: Context) -> Iterator[Finding]:
    for index, _, teacher, student in outputs_that_differ(context, "vocabulary"):
        if is_padding(student, teacher):
            yield Finding(f"vocabulary of {teacher:,} in the teacher, {student:,} in the student", row=index)
