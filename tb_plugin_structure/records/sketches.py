"""Weight sketches: a few values of a tensor, so that equal and similar weights are recognised across models."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

SKETCH_LENGTH = 64
_GOLDEN = 0.6180339887498949


@lru_cache(maxsize=4096)
def sketch_positions(elements: int) -> npt.NDArray[np.int64]:
    """Positions in the flattened tensor, from the golden ratio sequence: spread out, and the same for equal shapes."""
    if elements <= SKETCH_LENGTH:
        return np.arange(elements)
    return np.array(sorted({int(((i + 0.5) * _GOLDEN % 1.0) * elements) for i in range(SKETCH_LENGTH)}), np.int64)


def telling(values: list[float]) -> list[float]:
    """The sketch, empty for a constant (all ones, all zeros): such tensors are alike without being related."""
    return [] if not values or values.count(values[0]) == len(values) else values
