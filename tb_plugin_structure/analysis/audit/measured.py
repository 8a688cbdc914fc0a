"""What a recorded step measured: gradients that arrived, what the optimizer holds."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit.findings import Context


def student_is_fixed(context: Context) -> bool:
    """Whether the optimizer of the step holds nothing of the student: something else is trained against it."""
    left_out = parameters_with(context, "student", "in_optimizer", 0.0)
    return bool(left_out) and not parameters_with(context, "student", "in_optimizer", 1.0)


def inputs_with(context: Context, role: str, quantity: str, value: float) -> list[str]:
    """Inputs of a side for which the step measured a value of a quantity."""
    return _with(context, role, quantity, value, 2)


def parameters_with(context: Context, role: str, quantity: str, value: float) -> list[str]:
    """Parameters of a side ("teacher", "student") for which the step measured a value of a quantity."""
    return _with(context, role, quantity, value, 1)


def _with(context: Context, role: str, quantity: str, value: float, subject: int) -> list[str]:
    measurement = context.measurements.get(role)
    if measurement is None or quantity not in measurement.table:
        return []
    return [path for path, measured in measurement.quantity(quantity, subject=subject).items() if measured == value]
