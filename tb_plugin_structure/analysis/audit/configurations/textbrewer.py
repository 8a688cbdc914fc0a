"""TextBrewer: ``intermediate_matches`` by hidden state; number 0 is the embeddings' output, so block i is i + 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.analysis.audit.projections import Linear
from tb_plugin_structure.analysis.audit.rows import Row
from tb_plugin_structure.analysis.audit.steps import SelectElement

_BLOCK = re.compile(r"(?:^|\.)(\d+)$")


def textbrewer(rows: Sequence[Row]) -> dict[str, Any]:
    matches: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for row in rows:
        layers = [_hidden_state(path) for path in (row.teacher_path, row.student_path)]
        if None in layers:
            left_out[row.student_path or "."] = "only the embeddings and numbered blocks have a hidden-state index"
            continue
        steps = [step for step in row.comparison.adapter.steps if not isinstance(step, SelectElement)]
        match: dict[str, Any] = {
            "layer_T": layers[0],
            "layer_S": layers[1],
            "feature": "hidden",
            "loss": "hidden_mse",
            "weight": 1,
        }
        if len(steps) == 1 and isinstance(steps[0], Linear):
            match["proj"] = ["linear", steps[0].source, steps[0].target]
        elif steps:
            left_out[row.student_path] = row.comparison.adapter.line()
            continue
        matches.append(match)
    made: dict[str, Any] = {"intermediate_matches": matches}
    if left_out:
        made["not expressible"] = left_out
    return made


def _hidden_state(path: str) -> int | None:
    if path.rpartition(".")[2] == "embeddings":
        return 0
    found = _BLOCK.search(path)
    return int(found[1]) + 1 if found else None
