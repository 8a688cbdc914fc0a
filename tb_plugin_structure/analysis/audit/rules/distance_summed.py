"""A distance between the models is summed up beside terms that are means."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_terms import Term, distances, weight_of
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss


@rule(
    "distance-summed",
    severity="warning",
    explanation="With reduction='sum' the term grows with the batch and with every dimension, while cross entropy is a "
    "mean: it drowns the other terms, and a larger batch changes the balance.",
    fix="reduction='mean' (kl_div: 'batchmean'), or divide by the number of examples, positions and features.",
)
def distance_summed(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    for term in distances(loss):
        count = _summed(loss, term)
        weight = weight_of(loss, term.result)
        if count > 1 and weight.terms and weight.is_complete and not weight.is_lowered:
            yield Finding(f"{loss.where(term.kernel)} sums up {count:,} values", subject="outside")


def _summed(loss: RecordedLoss, term: Term) -> int:
    """How many values the operator adds up; 0 when it does something else."""
    kernels = loss.outside.kernels
    last = max(k for k, operator in enumerate(kernels["operator"].tolist()) if operator == term.operator)
    if loss.outside.shape(term.result):
        return 0
    name, sizes = loss.kernels[last], [prod(loss.outside.shape(tensor)) for tensor in loss.inputs(last)]
    if name == "sum":
        return sizes[0]
    return sizes[0] if name in _REDUCING and kernel_arguments(loss.outside, last).integer(2, "reduction") == _SUM else 0


_REDUCING = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss"})
_SUM = 2
"""torch's number for reduction='sum'."""
