"""Weight sketches: a few values of a tensor, so that equal and similar weights are recognised across models."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

SKETCH_LENGTH = 64
_GOLDEN = 0.6180339887498949


@lru_cache(maxsize=4096)
def _positions(elements: int) -> Tensor:
    """Positions in the flattened tensor, from the golden ratio sequence: spread out, and the same for equal shapes."""
    if elements <= SKETCH_LENGTH:
        return torch.arange(elements)
    return torch.tensor(sorted({int(((i + 0.5) * _GOLDEN % 1.0) * elements) for i in range(SKETCH_LENGTH)}))


def sketch(tensor: Tensor) -> list[float]:
    """Up to 64 values at positions that depend on the shape alone.

    Empty for what has no values to compare: meta and fake tensors, integer and boolean tensors, constants (all ones,
    all zeros), and tensors whose storage cannot be read.
    """
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor" or not tensor.is_floating_point():
        return []
    try:
        elements = tensor.numel()
        if elements < 2:
            return []
        flat = tensor.detach()
        flat = flat.view(-1) if flat.is_contiguous() else flat.reshape(-1)
        positions = _positions(elements)
        if flat.device.type != "cpu":
            positions = positions.to(flat.device)
        values: list[float] = flat.index_select(0, positions).float().tolist()
    except (RuntimeError, NotImplementedError, TypeError):
        return []
    return values if any(value != values[0] for value in values) else []
