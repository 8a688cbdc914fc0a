"""Teacher and student are softened by different temperatures."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import divergences, temperature_of
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss
from tb_plugin_structure.analysis.audit.twins import are_twins


@rule(
    "temperature-differs",
    severity="warning",
    explanation="The student's logits are divided by another number than the teacher's before they are compared: a "
    "student that gives the teacher's own logits does not have the least loss.",
    fix="Divide both by the same temperature; silence this where the teacher is sharpened on purpose (DINO).",
)
def temperature_differs(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    sides = {side.role: side for side in context.sides}
    seen: set[str] = set()
    for divergence in divergences(loss):
        divided = {
            role: value
            for tensor in (divergence.input, divergence.target)
            if (value := temperature_of(loss, sides, tensor)) is not None
            for role in loss.origin.get(tensor, ())
        }
        if set(divided) != set(sides) or isclose(divided["teacher"], divided["student"], rel_tol=1e-6):
            continue
        message = (
            f"{loss.where(divergence.kernel)}: the teacher's logits are divided by {divided['teacher']:g}, the "
            f"student's by {divided['student']:g}"
        )
        if message not in seen:
            seen.add(message)
            is_sharpened = divided["teacher"] < divided["student"] <= 1 and are_twins(context)
            yield Finding(message, subject="outside", severity="info" if is_sharpened else "")
