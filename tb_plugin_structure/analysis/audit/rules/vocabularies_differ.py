"""The vocabularies are those of different tokenizers."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.forms import is_padding
from tb_plugin_structure.analysis.audit.predictions import outputs_that_differ


@rule(
    "vocabularies-differ",
    severity="error",
    explanation="One id means two tokens: a loss over logits gives a wrong signal without crashing.",
    fix="Use one tokenizer for both, or a loss across tokenizers (ULD, GOLD).",
)
def vocabularies_differ(context: Context) -> Iterator[Finding]:
    for index, _, teacher, student in outputs_that_differ(context, "vocabulary"):
        if not is_padding(student, teacher):
            yield Finding(f"vocabulary of {teacher:,} in the teacher, {student:,} in the student", row=index)
