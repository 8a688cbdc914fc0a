"""The public API in the form that alignment yardsticks call: modules and inputs in, module paths out.

``python score.py --predictor alignment_adapter:align`` in such a yardstick, with this folder on the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

import tb_plugin_structure as tbs

Inputs = tuple[Sequence[Any], Mapping[str, Any]]


def align(
    teacher: nn.Module, student: nn.Module, teacher_inputs: Inputs, student_inputs: Inputs
) -> dict[str, list[str]]:
    """Student path -> teacher paths. Inputs are (positional arguments, keyword arguments)."""
    recorded_teacher = tbs.capture(teacher, teacher_inputs[0], dict(teacher_inputs[1]), name="teacher")
    recorded_student = tbs.capture(student, student_inputs[0], dict(student_inputs[1]), name="student")
    return tbs.align(teacher=recorded_teacher, student=recorded_student).module_pairs()
