"""The student's attention is compared with the teacher's after dropout."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import Made, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss

_DROPOUTS = ("dropout", "native_dropout")


@rule(
    "dropout-before-comparison",
    severity="warning",
    explanation="Dropout sets attention probabilities of the student to 0 and raises the others: they no longer sum to "
    "1, and the distance to the teacher's is mostly the noise of this step.",
    fix="Compare what the softmax gave, or set the dropout of the student's attention to 0.",
)
def dropout_before_comparison(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    seen: set[str] = set()
    for kernel, (_, tensor) in loss.meetings():
        made = made_by(loss, sides, tensor)
        if made is None or made.role != "student" or not made.operator.startswith(_DROPOUTS) or not _of_softmax(made):
            continue
        where = loss.where(kernel)
        if where not in seen:
            seen.add(where)
            yield Finding(
                f"{where} compares attention of the student after dropout with the teacher's", subject="outside"
            )


def _of_softmax(made: Made) -> bool:
    """Whether what was dropped from are probabilities."""
    return any(made.producer(tensor) == "_softmax" for tensor in made.inputs)
