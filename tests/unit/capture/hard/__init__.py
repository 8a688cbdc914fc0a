"""Models with what trips recorders: control flow, containers, memory, transforms, wrappers; as small as they get."""

from tests.unit.capture.hard import (
    around_modules,
    containers,
    control_flow,
    kinds_of_tensors,
    memory,
    operators_and_transforms,
)
from tests.unit.capture.hard.registry import HARD

__all__ = [
    "HARD",
    "around_modules",
    "containers",
    "control_flow",
    "kinds_of_tensors",
    "memory",
    "operators_and_transforms",
]
