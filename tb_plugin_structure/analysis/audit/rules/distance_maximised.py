"""A distance between the models is subtracted from the loss."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_terms import distances, weight_of
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


@rule(
    "distance-maximised",
    severity="error",
    explanation="A distance of teacher and student enters the loss with a negative weight: the optimizer drives the "
    "student away from the teacher. Only a generator that looks for examples on which the two differ wants that.",
    fix="Add the term. kl_div already is positive, unlike the sum of log-probabilities that cross entropy negates.",
)
def distance_maximised(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None or _is_fixed(context):
        return
    for term in distances(loss):
        weight = weight_of(loss, term.result)
        if weight.factor < 0:
            yield Finding(f"{loss.where(term.kernel)} is weighted by {weight.factor:g}", subject="outside")


def _is_fixed(context: Context) -> bool:
    """Whether the optimizer of the step holds nothing of the student: something else is trained against it."""
    left_out = parameters_with(context, "student", "in_optimizer", 0.0)
    return bool(left_out) and not parameters_with(context, "student", "in_optimizer", 1.0)
