"""The loss compares the student's value with a teacher's of another shape."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


@rule(
    "loss-shape-mismatch",
    severity="error",
    explanation="A value of the student is compared with one of the teacher that has another shape.",
    fix="Adapt the student's feature (report.adapters()), or check which element or dimension was meant.",
)
def loss_shape_mismatch(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    for kernel, first, second, result in loss.broadcasts():
        if loss.grows_both(first, second, result):
            continue  # silent-broadcast says what becomes of it
        roles = [loss.origin.get(tensor, frozenset()) for tensor in (first, second)]
        if {"teacher"} in roles and any("student" in side and "teacher" not in side for side in roles):
            shapes = [loss.outside.shape(tensor) for tensor in (first, second)]
            yield Finding(
                f"{loss.where(kernel)} compares {list(shapes[0])} ({'/'.join(sorted(roles[0]))}) with "
                f"{list(shapes[1])} ({'/'.join(sorted(roles[1]))})",
                subject="outside",
            )
