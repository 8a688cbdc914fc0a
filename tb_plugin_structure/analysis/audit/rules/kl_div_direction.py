"""kl_div weighs by the student's probabilities: the reverse divergence."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import divergences
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


@rule(
    "kl-div-direction",
    severity="info",
    explanation="The teacher is kl_div's input and the student its target, which is KL(student ‖ teacher): the student "
    "is pulled to one mode of the teacher instead of covering them all. MiniLLM means it so, most do not.",
    fix="Student first: F.kl_div(F.log_softmax(student / T, -1), F.softmax(teacher / T, -1), reduction='batchmean').",
)
def kl_div_direction(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    for divergence in divergences(loss):
        roles = [loss.origin.get(tensor, frozenset()) for tensor in (divergence.input, divergence.target)]
        if roles == [{"teacher"}, {"student"}]:
            yield Finding(f"{loss.where(divergence.kernel)}: the student is the target", subject="outside")
