"""mmrazor: recorders, connectors and loss mappings of a ``ConfigurableDistiller``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.projections import Conv1x1
from tb_plugin_structure.analysis.audit.rows import Row


def mmrazor(rows: Sequence[Row]) -> dict[str, Any]:
    students: dict[str, Any] = {}
    teachers: dict[str, Any] = {}
    connectors: dict[str, Any] = {}
    losses: dict[str, Any] = {}
    mappings: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for row in rows:
        if row.teacher is None or row.student is None or not row.teacher_path or not row.student_path:
            continue  # recorders watch modules inside the model
        steps = row.comparison.adapter.steps
        connector = steps[-1] if len(steps) == 1 and isinstance(steps[-1], Conv1x1) else None
        if steps and connector is None:
            left_out[row.student_path] = row.comparison.adapter.line()
            continue
        name = row.student_path.replace(".", "_")
        students[name] = {"type": "ModuleOutputs", "source": row.student_path}
        teachers[name] = {"type": "ModuleOutputs", "source": row.teacher_path}
        student = {"from_student": True, **_address(name, row.student)}
        if isinstance(connector, Conv1x1):
            connectors[f"{name}_connector"] = {
                "type": "ConvModuleConnector",
                "in_channel": connector.source,
                "out_channel": connector.target,
                "bias": False,
                "act_cfg": None,
            }
            student["connector"] = f"{name}_connector"
        losses[f"loss_{name}"] = {"type": "L2Loss", "loss_weight": 1.0}
        mappings[f"loss_{name}"] = {
            "s_feature": student,
            "t_feature": {"from_student": False, **_address(name, row.teacher)},
        }
    made: dict[str, Any] = {
        "distiller": {
            "type": "ConfigurableDistiller",
            "student_recorders": students,
            "teacher_recorders": teachers,
            "connectors": connectors,
            "distill_losses": losses,
            "loss_forward_mappings": mappings,
        }
    }
    if left_out:
        made["not expressible"] = {"pairs that need more than a 1x1 convolution": left_out}
    return made


def _address(recorder: str, feature: Feature) -> dict[str, Any]:
    """Which call (record_idx) and which element of a tuple (data_idx)."""
    address: dict[str, Any] = {"recorder": recorder}
    if feature.ordinal:
        address["record_idx"] = feature.ordinal
    if feature.element.isdigit():
        address["data_idx"] = int(feature.element)
    return address
