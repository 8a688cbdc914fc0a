"""Probabilities of one model are compared with the logits of the other."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import is_layer, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss

_DISTANCES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_ACTIVATIONS = {"_softmax": "a softmax", "_log_softmax": "a log_softmax", "sigmoid": "a sigmoid"}


@rule(
    "activation-on-one-side",
    severity="warning",
    explanation="A distance is taken between probabilities (or their logarithms) and logits: the two have other "
    "ranges, and the student is pulled to values that it cannot reach.",
    fix="Apply the same function to both, or to neither.",
)
def activation_on_one_side(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    seen: set[str] = set()
    for kernel, values in loss.meetings():
        if loss.kernels[kernel] not in _DISTANCES:
            continue
        makers = [made_by(loss, sides, tensor) for tensor in values]
        for role, made, other in zip(("teacher", "student"), makers, reversed(makers), strict=True):
            if made is None or made.role or made.kernel not in _ACTIVATIONS:
                continue
            if other is None or not other.role or not is_layer(other, loss, sides):
                continue
            others = "student" if role == "teacher" else "teacher"
            message = f"{loss.where(kernel)}: {_ACTIVATIONS[made.kernel]} of the {role}, logits of the {others}"
            if message not in seen:
                seen.add(message)
                # A student may well learn the teacher's log-probabilities: logits that need no normalising any more.
                can_meet = role == "teacher" and made.kernel == "_log_softmax"
                yield Finding(message, subject="outside", severity="info" if can_meet else "")
