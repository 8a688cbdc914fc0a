"""kl_div averages over classes as well as over examples."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import Divergence, divergences, temperature_of
from tb_plugin_structure.analysis.audit.loss_terms import distances, weight_of
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss


@rule(
    "kl-div-mean",
    severity="warning",
    explanation="reduction='mean', kl_div's default, divides by the number of classes too: the term is that many times "
    "too weak beside the others, by 1,000 on ImageNet. It is no Kullback-Leibler divergence.",
    fix="reduction='batchmean'; for [batch, tokens, vocabulary] flatten(0, 1) first.",
)
def kl_div_mean(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    operators = loss.outside.kernels["operator"]
    averaged = {int(operators[kernel]) for kernel, name in enumerate(loss.kernels) if name == "mean"}
    for divergence in divergences(loss):
        shape = loss.outside.shape(divergence.input)
        if (
            int(operators[divergence.kernel]) in averaged
            and len(shape) > 1
            and not _is_made_good(context, loss, divergence)
        ):
            yield Finding(f"{loss.where(divergence.kernel)} averages over all of {list(shape)}", subject="outside")


def _is_made_good(context: Context, loss: RecordedLoss, divergence: Divergence) -> bool:
    """Whether the term is multiplied by the number of classes, beside the square of its temperature."""
    result = next((term.result for term in distances(loss) if term.kernel == divergence.kernel), None)
    if result is None:
        return False
    temperature = temperature_of(loss, {side.role: side for side in context.sides}, divergence.input) or 1.0
    classes = loss.outside.shape(divergence.input)[-1]
    return weight_of(loss, result).factor >= classes * max(1.0, temperature) ** 2
