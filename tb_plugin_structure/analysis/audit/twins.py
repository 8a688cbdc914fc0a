"""Two models of one architecture, as where the teacher is a moving average of the student."""

from __future__ import annotations

from tb_plugin_structure.analysis.audit.findings import Context
from tb_plugin_structure.analysis.audit.side import Side


def are_twins(context: Context) -> bool:
    """Whether teacher and student have the same parameters: an average of the student's weights over time (Mean
    Teacher, DINO, BYOL), which runs in training mode and with its own temperature by design, or the same network again.
    """
    teacher, student = (_parameters(side) for side in context.sides)
    return bool(teacher) and teacher == student


def _parameters(side: Side) -> dict[str, tuple[int, ...]]:
    table = side.structure.parameters
    return {
        table.text("path", row): tuple(table.values("shape", row).tolist())
        for row in range(table.rows)
        if not table["is_buffer"][row]
    }
