"""What a recorded step measured: gradients that arrived, what the optimizer holds."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit.findings import Context


def parameters_with(context: Context, role: str, quantity: str, value: float) -> list[str]:
    """Parameters of a side ("teacher", "student") for which the step measured a value of a quantity."""
    measurement = context.measurements.get(role)
    if measurement is None or quantity not in measurement.table:
        return []
    return [path for path, measured in measurement.quantity(quantity, subject=1).items() if measured == value]
