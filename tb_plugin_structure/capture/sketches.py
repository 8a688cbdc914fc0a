"""Weight sketches of tensors, wherever they lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from tb_plugin_structure.capture.sharding import distributed_tensor_class
from tb_plugin_structure.records.sketches import SKETCH_LENGTH, sketch_positions, telling

_ERRORS = (RuntimeError, NotImplementedError, TypeError)


MOST_TOGETHER = 4096
"""Elements of a tensor that is put together with others as a whole; of larger ones the samples alone."""


@lru_cache(maxsize=4096)
def _positions(elements: int, device: torch.device) -> Tensor:
    return torch.from_numpy(sketch_positions(elements)).to(device)


@lru_cache(maxsize=16)
def _positions_in_a_row(elements: tuple[int, ...], device: torch.device) -> tuple[Tensor, list[int]]:
    """The same for tensors that lie back to back, and how many positions each of them has."""
    places = [sketch_positions(length) for length in elements]
    begins = np.cumsum([0, *elements]).tolist()
    together = np.concatenate([begin + place for begin, place in zip(begins, places, strict=False)])
    return torch.from_numpy(together).to(device), [len(place) for place in places]


class Samples:
    """Values of many tensors at the positions of their sketches, copied when this is made.

    What lies on one device is put together before it is read: one transfer, not one a tensor, and one kernel for all
    that are small. Nothing goes by way of numpy: memory that numpy has seen can never be resized again, which FSDP and
    observers of ranges do.
    """

    def __init__(self, tensors: Sequence[Tensor | None]) -> None:
        self._count = len(tensors)
        self._rows: list[tuple[list[int], list[int], Tensor]] = []
        """For each device and dtype: rows, lengths of their samples, and the samples back to back, as float32."""
        groups: dict[tuple[torch.device, torch.dtype], tuple[list[int], list[Tensor]]] = {}
        distributed = distributed_tensor_class()
        with torch.no_grad():
            for row, tensor in enumerate(tensors):
                # Reading values that lie on several ranks would be a collective.
                if tensor is None or (distributed is not None and isinstance(tensor, distributed)):
                    continue
                dtype = tensor.dtype
                if not dtype.is_floating_point or tensor.is_meta or type(tensor) is FakeTensor:
                    continue
                try:
                    elements = tensor.numel()
                    if elements < 2:
                        continue
                    sample = tensor if tensor.dim() == 1 else tensor.reshape(-1)
                    device = sample.device
                    if elements > MOST_TOGETHER:
                        sample = sample.index_select(0, _positions(elements, device))
                except _ERRORS:
                    continue
                rows, samples = groups.setdefault((device, dtype), ([], []))
                rows.append(row)
                samples.append(sample)
            for rows, samples in groups.values():
                self._join(rows, samples)

    def _join(self, rows: list[int], samples: list[Tensor]) -> None:
        try:
            together = torch.cat(samples)
            lengths = [sample.numel() for sample in samples]  # len() runs Python
            if max(lengths) > SKETCH_LENGTH:
                positions, lengths = _positions_in_a_row(tuple(lengths), together.device)
                together = together.index_select(0, positions)
            together = together.float().cpu()
        except _ERRORS:
            # One of them cannot be read, or is of a class of its own.
            if len(rows) > 1:
                for row, sample in zip(rows, samples, strict=True):
                    self._join([row], [sample])
            return
        self._rows.append((rows, lengths, together))

    def sketches(self) -> list[list[float]]:
        """For each tensor up to 64 values at positions that depend on the shape alone.

        Empty for what has no values to compare: meta and fake tensors, integer and boolean tensors, constants (all
        ones, all zeros), tensors whose storage cannot be read or lies on several ranks.
        """
        found: list[list[float]] = [[] for _ in range(self._count)]
        for rows, lengths, together in self._rows:
            values = together.tolist()
            begin = 0
            for row, length in zip(rows, lengths, strict=True):
                found[row] = telling(values[begin : begin + length])
                begin += length
        return found


def sketch(tensor: Tensor) -> list[float]:
    """The sketch of one tensor."""
    return Samples([tensor]).sketches()[0]
