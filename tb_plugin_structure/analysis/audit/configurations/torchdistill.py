"""torchdistill: hooks by module path and one loss term a pair (``SimpleLossWrapper``), as its YAML has them.

Adapters are not part of the criterion there: a term that needs one is named together with its code, to be put into an
auxiliary wrapper of the student.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.analysis.audit.rows import Row


def torchdistill(rows: Sequence[Row]) -> dict[str, Any]:
    terms: dict[str, Any] = {}
    adapters: dict[str, str] = {}
    for row in rows:
        name = (row.student_path or "model").replace(".", "_")
        terms[name] = {
            "criterion": {"key": "MSELoss", "kwargs": {"reduction": "mean"}},
            "criterion_wrapper": {
                "key": "SimpleLossWrapper",
                "kwargs": {
                    "input": {"is_from_teacher": False, "module_path": row.student_path or ".", "io": "output"},
                    "target": {"is_from_teacher": True, "module_path": row.teacher_path or ".", "io": "output"},
                },
            },
            "weight": 1.0,
        }
        if row.comparison.adapter:
            adapters[row.student_path or "."] = row.comparison.adapter.code()
    made: dict[str, Any] = {
        "teacher": {"forward_hook": {"input": [], "output": _unique(row.teacher_path or "." for row in rows)}},
        "student": {"forward_hook": {"input": [], "output": _unique(row.student_path or "." for row in rows)}},
        "criterion": {"key": "WeightedSumLoss", "kwargs": {"sub_terms": terms}},
    }
    if adapters:
        made["not expressible"] = {"adapters for an auxiliary wrapper of the student": adapters}
    return made


def _unique(paths: Any) -> list[str]:
    return list(dict.fromkeys(paths))
