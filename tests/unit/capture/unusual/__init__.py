"""Models that do unusual things with memory, with modules, with Python and with autograd; as small as they get."""

from tests.unit.capture.unusual import (
    architectures,
    autograd,
    containers,
    control_flow,
    generating_models,
    kinds_of_tensors,
    memory,
    modules,
    replaced_modules,
    shared_memory,
    state,
    tensors,
    training,
    transforms,
)
from tests.unit.capture.unusual.registry import UNUSUAL

__all__ = [
    "UNUSUAL",
    "architectures",
    "autograd",
    "containers",
    "control_flow",
    "generating_models",
    "kinds_of_tensors",
    "memory",
    "modules",
    "replaced_modules",
    "shared_memory",
    "state",
    "tensors",
    "training",
    "transforms",
]
