"""The loss of the step uses nothing of the teacher."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss


@rule(
    "teacher-unused",
    severity="warning",
    explanation="The teacher ran in the step, but no operator of the loss reads anything of it: the student learns "
    "from the labels, or from itself, alone.",
    fix="Compare the student's output or features with the teacher's; look for a variable used twice, or a hook on the "
    "wrong model.",
)
def teacher_unused(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None or "teacher" not in context.measurements:
        return  # the teacher was recorded elsewhere: this step need not know it
    if loss.uses_another_model():
        return  # the two may meet in there
    roles = set().union(*loss.origin.values()) if loss.origin else set()
    tensors = loss.outside.tensors
    learns = any(tensors["requires_grad"][t] and tensors["producer"][t] >= 0 for t in loss.origin)
    if roles == {"student"} and learns:
        yield Finding("the loss reads nothing of the teacher", subject="outside")
    if not loss.losses or any("teacher" in loss.origin.get(tensor, ()) for tensor in loss.part_of_loss):
        return
    forgotten = next((kernel for kernel, _ in loss.meetings() if _is_learnable(loss, kernel)), None)
    if forgotten is not None:
        yield Finding(
            f"{loss.where(forgotten)} compares the student with the teacher, and is no part of the loss",
            subject="outside",
        )


def _is_learnable(loss: RecordedLoss, kernel: int) -> bool:
    """Whether a gradient could come back from what a kernel gives: no metric under no_grad()."""
    return any(loss.outside.tensors["requires_grad"][t] for t in loss.outside.kernels.values("outputs", kernel))
