"""kl_div averages over classes as well as over examples."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import divergences
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


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
        if int(operators[divergence.kernel]) in averaged and len(shape) > 1:
            yield Finding(f"{loss.where(divergence.kernel)} averages over all of {list(shape)}", subject="outside")
