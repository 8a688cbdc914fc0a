"""Weight sketches of tensors, wherever they lie."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from tb_plugin_structure.capture.sharding import spread_of
from tb_plugin_structure.records.sketches import sketch_positions, telling


@lru_cache(maxsize=4096)
def _positions(elements: int) -> Tensor:
    return torch.from_numpy(sketch_positions(elements))


def sketch(tensor: Tensor) -> list[float]:
    """Up to 64 values at positions that depend on the shape alone.

    Empty for what has no values to compare: meta and fake tensors, integer and boolean tensors, constants (all ones,
    all zeros), tensors whose storage cannot be read or lies on several ranks.
    """
    dtype = tensor.dtype
    if spread_of(tensor) is not None:
        return []  # reading values of all ranks would be a collective
    if tensor.is_meta or not dtype.is_floating_point or type(tensor) is FakeTensor:
        return []
    try:
        elements = tensor.numel()
        if elements < 2:
            return []
        flat = tensor.detach()
        positions = _positions(elements)
        # Not by way of numpy: memory that numpy has seen can never be resized again, which FSDP and observers of
        # ranges do.
        values: list[float] = flat.reshape(-1).index_select(0, positions.to(flat.device)).float().tolist()
    except (RuntimeError, NotImplementedError, TypeError):
        return []
    return telling(values)
