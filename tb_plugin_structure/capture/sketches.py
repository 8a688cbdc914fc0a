"""Weight sketches: a few values of a tensor, so that equal and similar weights are recognised across models."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

SKETCH_LENGTH = 64
_GOLDEN = 0.6180339887498949


@lru_cache(maxsize=4096)
def _positions(elements: int) -> npt.NDArray[np.int64]:
    """Positions in the flattened tensor, from the golden ratio sequence: spread out, and the same for equal shapes."""
    if elements <= SKETCH_LENGTH:
        return np.arange(elements)
    return np.array(sorted({int(((i + 0.5) * _GOLDEN % 1.0) * elements) for i in range(SKETCH_LENGTH)}), np.int64)


def sketch(tensor: Tensor) -> list[float]:
    """Up to 64 values at positions that depend on the shape alone.

    Empty for what has no values to compare: meta and fake tensors, integer and boolean tensors, constants (all ones,
    all zeros), and tensors whose storage cannot be read.
    """
    dtype = tensor.dtype
    if tensor.is_meta or not dtype.is_floating_point or type(tensor) is FakeTensor:
        return []
    try:
        elements = tensor.numel()
        if elements < 2:
            return []
        flat = tensor.detach()
        positions = _positions(elements)
        if flat.device.type == "cpu" and dtype is torch.float32 and flat.is_contiguous():
            values: list[float] = flat.numpy().reshape(-1)[positions].tolist()
        else:
            chosen = torch.from_numpy(positions).to(flat.device)
            values = flat.reshape(-1).index_select(0, chosen).float().tolist()
    except (RuntimeError, NotImplementedError, TypeError):
        return []
    first = values[0]
    return [] if values.count(first) == len(values) else values
