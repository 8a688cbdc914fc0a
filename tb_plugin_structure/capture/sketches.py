"""Weight sketches of tensors, wherever they lie."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from tb_plugin_structure.capture.sharding import spread_of
from tb_plugin_structure.records.sketches import sketch_positions, telling


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
        positions = sketch_positions(elements)
        if flat.device.type == "cpu" and dtype is torch.float32 and flat.is_contiguous():
            values: list[float] = flat.numpy().reshape(-1)[positions].tolist()
        else:
            chosen = torch.from_numpy(positions).to(flat.device)
            values = flat.reshape(-1).index_select(0, chosen).float().tolist()
    except (RuntimeError, NotImplementedError, TypeError):
        return []
    return telling(values)
