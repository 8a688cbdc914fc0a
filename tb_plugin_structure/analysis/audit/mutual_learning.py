"""A teacher that learns in the same step, by a loss of its own: deep mutual learning, online distillation."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit.findings import Context
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss

_TASK_LOSSES = ("nll_loss", "binary_cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


def teacher_learns(context: Context) -> bool:
    """Whether the step trains the teacher on purpose: labels are compared with what it alone gave, a gradient can come
    back from there, and one did reach it."""
    loss = recorded_loss(context)
    if loss is None or not parameters_with(context, "teacher", "gradient_reached", 1.0):
        return False
    for kernel, name in enumerate(loss.kernels):
        if name.startswith(_TASK_LOSSES):
            result = int(loss.outside.kernels.values("outputs", kernel)[0])
            if loss.origin[result] == {"teacher"} and loss.outside.tensors["requires_grad"][result]:
                return True
    return False


def unless_it_learns(context: Context, severity: str = "") -> str:
    """Severity of a finding about a teacher that should stand still: "info" for one that learns on purpose."""
    return "info" if teacher_learns(context) else severity
