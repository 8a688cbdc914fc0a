"""A cross entropy is given the teacher's logits where probabilities belong."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import is_layer, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss

_LOSSES = {
    "cross_entropy_loss": "mul",  # with probabilities as target: mul(log_softmax(input), target), summed and negated
    "cross_entropy": "mul",
    "binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
    "binary_cross_entropy": "binary_cross_entropy",
}
"""Operator -> its kernel that reads the target."""


@rule(
    "targets-are-logits",
    severity="error",
    explanation="A cross entropy takes probabilities as soft targets. Of logits, which may be negative and do not sum "
    "to 1, it gives a number that can fall without end: the student's scores grow, and learn nothing.",
    fix="F.cross_entropy(student / T, F.softmax(teacher / T, dim=1)); for binary ones teacher.sigmoid().",
)
def targets_are_logits(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    seen: set[str] = set()
    for kernel, target in _targets(loss):
        made = made_by(loss, sides, target)
        where = loss.where(kernel)
        if made is not None and is_layer(made, loss, sides) and where not in seen:
            seen.add(where)
            yield Finding(f"{where}: its targets are logits of the {made.role or 'step'}", subject="outside")


def _targets(loss: RecordedLoss) -> Iterator[tuple[int, int]]:
    """(kernel, what a cross entropy takes as target, of the teacher alone)."""
    for kernel, name in enumerate(loss.kernels):
        operator = loss.outside.operators.text("name", int(loss.outside.kernels["operator"][kernel]))
        inputs = loss.inputs(kernel)
        if _LOSSES.get(operator) == name and len(inputs) >= 2:
            of_teacher = [tensor for tensor in inputs[:2] if loss.origin.get(tensor, frozenset()) == {"teacher"}]
            of_student = any("student" in loss.origin.get(tensor, frozenset()) for tensor in inputs[:2])
            if len(of_teacher) == 1 and of_student:
                yield kernel, of_teacher[0]
