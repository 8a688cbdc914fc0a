"""L2 norms of gradients: computed where the gradient is, read at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from tb_plugin_structure.capture.sharding import local_tensor


def norm_of(gradient: Tensor) -> Tensor:
    """L2 norm, still on the gradient's device."""
    with torch.no_grad():
        gradient = local_tensor(gradient)  # the norm over all ranks would be a collective
        values = gradient.coalesce().values() if gradient.is_sparse else gradient.detach()
        norm: Tensor = torch.linalg.vector_norm(values, dtype=_wide(values.dtype))
        return norm


def _wide(dtype: torch.dtype) -> torch.dtype | None:
    """float16 overflows when it is squared and summed."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else None


def has_value(norm: Tensor) -> bool:
    """Whether there is a number behind it: not on the meta device, nor in a pass that computes nothing."""
    return not norm.is_meta and not isinstance(norm, FakeTensor)


def values_of(norms: Sequence[Tensor]) -> list[float]:
    """One transfer a device instead of one a parameter."""
    found = [math.nan] * len(norms)
    devices: dict[torch.device, list[int]] = {}
    for position, norm in enumerate(norms):
        if has_value(norm):
            devices.setdefault(norm.device, []).append(position)
    for positions in devices.values():
        stacked = torch.stack([norms[position].double() for position in positions]).tolist()
        for position, value in zip(positions, stacked, strict=True):
            found[position] = value
    return found
