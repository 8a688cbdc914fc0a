"""A similarity of the models is added to the loss."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_terms import similarities, weight_of
from tb_plugin_structure.analysis.audit.measured import student_is_fixed
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


@rule(
    "similarity-minimised",
    severity="error",
    explanation="cosine_similarity is the larger the more alike its arguments are. Added to the loss it drives the "
    "student away from the teacher.",
    fix="Add 1 - F.cosine_similarity(student, teacher, dim=-1).mean().",
)
def similarity_minimised(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None or student_is_fixed(context):
        return
    weights = [(term, weight_of(loss, term.result)) for term in similarities(loss)]
    if any(weight.factor < 0 for _, weight in weights):
        return  # drawn to one and pushed from the other: positive and negative pairs
    for term, weight in weights:
        if weight.is_complete and weight.end in loss.losses:
            yield Finding(f"{loss.where(term.kernel)} is weighted by +{weight.factor:g}", subject="outside")
