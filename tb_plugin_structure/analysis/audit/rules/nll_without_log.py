"""nll_loss is given something else than logarithms of probabilities."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import is_layer, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss

_KERNELS = ("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d")
_WHAT = {"_softmax": "probabilities", "sigmoid": "probabilities"}


@rule(
    "nll-without-log",
    severity="error",
    explanation="nll_loss takes logarithms of probabilities; of logits it is not bounded below, and falls without the "
    "model getting better.",
    fix="Use cross_entropy on the logits, or apply log_softmax(…, dim=1) first.",
)
def nll_without_log(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    for kernel, name in enumerate(loss.kernels):
        if name not in _KERNELS or not loss.inputs(kernel):
            continue
        made = made_by(loss, sides, loss.inputs(kernel)[0])
        what = None if made is None else "logits" if is_layer(made, loss, sides) else _WHAT.get(made.kernel)
        if what is not None:
            yield Finding(f"{loss.where(kernel)} is given {what}, not their logarithms", subject="outside")
