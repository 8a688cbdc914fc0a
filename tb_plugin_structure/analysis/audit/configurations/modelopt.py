"""NVIDIA Model Optimizer: a criterion of (student layer, teacher layer) pairs, the student first.

Losses are named as text, since the framework takes modules: replace ``"MSELoss()"`` by an instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.analysis.audit.rows import Row


def modelopt(rows: Sequence[Row]) -> dict[str, Any]:
    criterion = {}
    adapters: dict[str, str] = {}
    for row in rows:
        criterion[row.student_path, row.teacher_path] = "MSELoss()"
        if row.comparison.adapter:
            adapters[row.student_path] = row.comparison.adapter.code()
    made: dict[str, Any] = {"criterion": criterion}
    if adapters:
        made["not expressible"] = {"adapters to put inside the loss modules": adapters}
    return made
