"""The module call around a kernel, and what its tensors are."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Call:
    """Stands for a module call when no kernel tells of it."""

    def __init__(self, model: str, module_path: str, ordinal: int, module: nn.Module | None) -> None:
        self.model, self.module_path, self.ordinal, self.module = model, module_path, ordinal, module


def has_values(tensor: Any) -> bool:
    """Whether a tensor has values: fake and meta tensors have none."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, torch.Tensor) and not tensor.is_meta and not isinstance(tensor, FakeTensor)


def dtype_of(tensor: torch.Tensor) -> str:
    """E.g. "float32"."""
    return str(tensor.dtype).removeprefix("torch.")
