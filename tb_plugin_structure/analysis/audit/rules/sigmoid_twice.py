"""A loss of logits is given probabilities."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import made_by
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss

_GIVEN = {"sigmoid": "a sigmoid", "_softmax": "a softmax"}


@rule(
    "sigmoid-twice",
    severity="warning",
    explanation="binary_cross_entropy_with_logits applies the sigmoid itself: of probabilities it makes values between "
    "0.5 and 0.73, whatever the model says.",
    fix="Give it the logits, or use binary_cross_entropy on the probabilities.",
)
def sigmoid_twice(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    for kernel, name in enumerate(loss.kernels):
        if name != "binary_cross_entropy_with_logits" or not loss.inputs(kernel):
            continue
        made = made_by(loss, sides, loss.inputs(kernel)[0])
        if made is not None and made.kernel in _GIVEN:
            yield Finding(f"{loss.where(kernel)} is given the result of {_GIVEN[made.kernel]}", subject="outside")
