"""The two models predict over different classes or vocabularies."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.forms import is_padding
from tb_plugin_structure.analysis.audit.rows import Row
from tb_plugin_structure.analysis.audit.stages import MODEL


def _outputs(context: Context, mismatch: str) -> Iterator[tuple[int, Row, int, int]]:
    """(index, row, teacher size, student size) of the models' outputs that differ in the last dimension."""
    for index, row in enumerate(context.rows):
        if row.level != MODEL or mismatch not in row.comparison.classes:
            continue
        if row.teacher is not None and row.student is not None and row.teacher.shape and row.student.shape:
            teacher, student = row.teacher.shape[-1], row.student.shape[-1]
            if teacher != student:
                yield index, row, teacher, student


@rule(
    "padded-vocabulary",
    severity="warning",
    explanation="The sizes differ by padding: a loss over logits either crashes or compares ids that no token has.",
    fix="If the tokenizers are equal, cut both logits to the smaller vocabulary in the loss.",
)
def padded_vocabulary(context: Context) -> Iterator[Finding]:
    for index, _, teacher, student in _outputs(context, "vocabulary"):
        if is_padding(student, teacher):
            yield Finding(f"vocabulary of {teacher:,} in the teacher, {student:,} in the student", row=index)


@rule(
    "vocabularies-differ",
    severity="error",
    explanation="One id means two tokens: a loss over logits gives a wrong signal without crashing.",
    fix="Use one tokenizer for both, or a loss across tokenizers (ULD, GOLD).",
)
def vocabularies_differ(context: Context) -> Iterator[Finding]:
    for index, _, teacher, student in _outputs(context, "vocabulary"):
        if not is_padding(student, teacher):
            yield Finding(f"vocabulary of {teacher:,} in the teacher, {student:,} in the student", row=index)


@rule(
    "classes-differ",
    severity="warning",
    explanation="Logits over different sets of classes cannot be compared.",
    fix="Give the student the teacher's classes, map them by name, or distill features only.",
)
def classes_differ(context: Context) -> Iterator[Finding]:
    for index, _, teacher, student in _outputs(context, "classes"):
        yield Finding(f"{teacher:,} outputs in the teacher, {student:,} in the student", row=index)
