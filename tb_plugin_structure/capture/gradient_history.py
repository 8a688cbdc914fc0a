"""Gradients that the optimizer has stepped with, and that are still there when the next step begins."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

Kept = dict[int, tuple[int, int]]
"""id of a parameter -> address and version of its gradient."""

_WATCHED = 8


class GradientHistory:
    """Looks at an optimizer as each training step begins, recorded or not, and leaves nothing on it.

    Weights that were written since the step before began say that the optimizer stepped. A gradient that is there all
    the same was used already; whether it is zeroed before the backward pass, that pass will show. Between two batches
    whose gradients are accumulated nothing writes the weights.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._versions: dict[int, int] = {}

    def begin(self, optimizer: torch.optim.Optimizer, step: int, *, is_recorded: bool) -> Kept:
        """The gradients that were used already, for a recorded step; none where the step before was not seen."""
        versions = {id(p): p._version for p in islice(_trained(optimizer), _WATCHED)}
        follows = self._step is not None and step == self._step + 1
        stepped = follows and any(self._versions.get(key, version) != version for key, version in versions.items())
        self._step, self._versions = step, versions
        if not (stepped and is_recorded):
            return {}
        return {
            id(p): (p.grad.data_ptr(), p.grad._version)
            for p in _trained(optimizer)
            if p.grad is not None and p.grad.layout == torch.strided
        }


def was_kept(parameter: Tensor, kept: Kept) -> bool:
    """Whether the gradient of a parameter is one that was used already, as it was when the step began."""
    gradient = parameter.grad
    return gradient is not None and kept.get(id(parameter)) == (gradient.data_ptr(), gradient._version)


def _trained(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad)
