"""The loss of softened logits is not multiplied by the square of the temperature."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import divergences, temperature_of
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss


@rule(
    "temperature-unsquared",
    severity="info",
    explanation="Logits divided by a temperature T give gradients that are T² times as small; the term loses its "
    "weight as T grows (Hinton et al. 2015, section 2).",
    fix="Multiply the term by T * T, unless its weight already holds it.",
)
def temperature_unsquared(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    for divergence in divergences(loss):
        temperature = temperature_of(loss, sides, divergence.input) or 1.0
        if temperature > 1.5 and not _is_raised(loss, divergence.kernel):
            yield Finding(
                f"{loss.where(divergence.kernel)}: logits divided by {temperature:g}, and the term not multiplied by "
                f"{temperature**2:g}",
                subject="outside",
            )


def _is_raised(loss: RecordedLoss, kernel: int) -> bool:
    """Whether something after the divergence multiplies what it gave by a number above 1, or by a tensor."""
    made = {int(t) for k in _of_operator(loss, kernel) for t in loss.outside.kernels.values("outputs", k)}
    for later in range(kernel, len(loss.kernels)):
        read = [tensor for tensor in loss.inputs(later) if tensor in made]
        if not read or loss.outside.kernels["operator"][later] == loss.outside.kernels["operator"][kernel]:
            continue
        if loss.kernels[later] == "mul":
            number = kernel_arguments(loss.outside, later).get(1, "other")
            if len(loss.inputs(later)) > 1 or (isinstance(number, int | float) and number > 1):
                return True
        made.update(int(t) for t in loss.outside.kernels.values("outputs", later))
    return False


def _of_operator(loss: RecordedLoss, kernel: int) -> list[int]:
    operators = loss.outside.kernels["operator"]
    return [k for k in range(kernel, len(loss.kernels)) if operators[k] == operators[kernel]]
