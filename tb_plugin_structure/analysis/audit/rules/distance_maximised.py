"""A distance between the models is subtracted from the loss."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_terms import cross_entropies, distances, weight_of
from tb_plugin_structure.analysis.audit.measured import student_is_fixed
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
    if loss is None or student_is_fixed(context):
        return
    for term in distances(loss):
        weight = weight_of(loss, term.result)
        if weight.factor < 0:
            yield Finding(f"{loss.where(term.kernel)} is weighted by {weight.factor:g}", subject="outside")
    sides = {side.role: side for side in context.sides}
    for term in cross_entropies(loss, sides):
        weight = weight_of(loss, term.result)
        if weight.factor > 0 and weight.is_complete and weight.end in loss.losses:
            yield Finding(
                f"{loss.where(term.kernel)}: the teacher's probabilities times the student's log-probabilities, which "
                "are negative, are added to the loss",
                subject="outside",
                fix="Subtract it: cross entropy is -(teacher * log_softmax(student)).sum(-1).mean().",
            )
