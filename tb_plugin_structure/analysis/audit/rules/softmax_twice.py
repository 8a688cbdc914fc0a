"""A softmax of what is a softmax already."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import axis_of, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


@rule(
    "softmax-twice",
    severity="warning",
    explanation="Probabilities are taken for logits: the result is almost uniform, whatever the model says, and its "
    "gradients are small. cross_entropy and log_softmax apply the softmax themselves.",
    fix="Give them the logits; of probabilities p use (p + eps).log().",
)
def softmax_twice(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    seen: set[str] = set()
    for kernel, name in enumerate(loss.kernels):
        if name not in ("_softmax", "_log_softmax") or not loss.inputs(kernel):
            continue
        tensor = loss.inputs(kernel)[0]
        made = made_by(loss, sides, tensor)
        if made is None or made.kernel != "_softmax" or made.shape != loss.outside.shape(tensor):
            continue
        axis = kernel_arguments(loss.outside, kernel).integer(1, "dim")
        message = f"{loss.where(kernel)} is given the result of a softmax{f' in the {made.role}' if made.role else ''}"
        if axis is not None and axis % len(made.shape) == axis_of(made) and message not in seen:
            seen.add(message)
            yield Finding(message, subject="outside")
