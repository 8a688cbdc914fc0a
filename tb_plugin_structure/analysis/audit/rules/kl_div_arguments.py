"""kl_div is given something else than logarithms of probabilities and probabilities."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import divergences, is_layer, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss

_PROBABILITIES, _LOGARITHMS = "probabilities", "logarithms of probabilities"
_WHAT = {"_softmax": _PROBABILITIES, "sigmoid": _PROBABILITIES, "_log_softmax": _LOGARITHMS}


@rule(
    "kl-div-arguments",
    severity="error",
    explanation="kl_div(input, target) takes logarithms of probabilities as input and probabilities as target. Of "
    "other values it gives a number that is no divergence and may fall below zero.",
    fix="F.kl_div(F.log_softmax(student / T, -1), F.softmax(teacher / T, -1), reduction='batchmean') * T * T; "
    "log_target=True where the target is a log_softmax as well.",
)
def kl_div_arguments(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    seen: set[str] = set()
    for divergence in divergences(loss):
        target = _LOGARITHMS if divergence.log_target else _PROBABILITIES
        given = (("input", divergence.input, _LOGARITHMS), ("target", divergence.target, target))
        for name, tensor, expected in given:
            made = made_by(loss, sides, tensor)
            what = None if made is None else "logits" if is_layer(made, loss, sides) else _WHAT.get(made.kernel)
            message = f"{loss.where(divergence.kernel)}: its {name} is {what}, {expected} are expected"
            if what is not None and what != expected and message not in seen:
                seen.add(message)
                yield Finding(message, subject="outside")
