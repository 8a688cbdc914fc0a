"""A comparison of the two models is multiplied by 0."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


@rule(
    "loss-times-zero",
    severity="info",
    explanation="A term that compares the two models has the weight 0 in this step: it costs its time and teaches "
    "nothing.",
    fix="Give it a weight, or do not compute it. A schedule may well begin at 0.",
)
def loss_times_zero(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    for kernel, name in enumerate(loss.kernels):
        if name != "mul" or len(loss.inputs(kernel)) != 1:
            continue
        tensor = loss.inputs(kernel)[0]
        number = kernel_arguments(loss.outside, kernel).get(1, "other")
        is_zero = isinstance(number, int | float) and not isinstance(number, bool) and number == 0
        if is_zero and {"teacher", "student"} <= loss.origin.get(tensor, frozenset()):
            yield Finding(
                f"{loss.where(kernel)} multiplies a comparison of teacher and student by 0", subject="outside"
            )
