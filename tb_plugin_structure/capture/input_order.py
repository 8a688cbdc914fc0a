"""Whether the models of a step were given the same examples in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tb_plugin_structure.capture.gradient_norms import has_value
from tb_plugin_structure.capture.nested import named_arguments
from tb_plugin_structure.capture.observer import ObservedModel, Observer
from tb_plugin_structure.capture.sharding import local_tensor

SAME, REORDERED, OTHER = range(3)
"""Positions in the categories of the quantity "input_order"."""

_MAXIMUM_CALLS, _MAXIMUM_EXAMPLES, _MAXIMUM_ELEMENTS = 64, 4096, 2**26
_RELATIVE = 1e-5
_is_transformed = torch._C._functorch.is_functorch_wrapped_tensor

Prints = list[dict[tuple[str, tuple[int, ...]], Tensor]]
"""For each call of a model, (argument, its shape) -> one number an example."""


class InputOrder:
    """Takes one number of each example as a model is called: the sum of its values, each weighted by its position."""

    def __init__(self, models: Sequence[ObservedModel], observer: Observer) -> None:
        self._models, self._observer = models, observer
        self._prints: list[Prints] = [[] for _ in models]
        self._handles: list[Any] = []

    def start(self) -> None:
        if len(self._models) < 2:
            return
        for model, prints in zip(self._models, self._prints, strict=True):
            module = model.table.model
            if not isinstance(module, torch.jit.ScriptModule):
                self._handles.append(module.register_forward_pre_hook(self._hook(prints), with_kwargs=True))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, prints: Prints) -> Any:
        def hook(_: Any, args: Any, kwargs: Any) -> None:
            if len(prints) >= _MAXIMUM_CALLS:
                return
            self._observer.paused += 1
            try:
                given = named_arguments(args, kwargs)
                prints.append(
                    {(name, tuple(tensor.shape)): _print_of(tensor) for name, tensor in given if _has_examples(tensor)}
                )
            except Exception:  # a kind of tensor without sums; a recording must not end a training step
                prints.append({})
            finally:
                self._observer.paused -= 1

        return hook

    def of_model(self, index: int) -> dict[str, int]:
        """Argument -> how its examples stand to those of the same argument of the other models; arguments that no other
        model was given as often, or in that shape, are left out."""
        own, found = self._prints[index], dict[str, int]()
        for other in (prints for position, prints in enumerate(self._prints) if position != index):
            if len(other) != len(own):
                continue
            for mine, theirs in zip(own, other, strict=True):
                for key in mine.keys() & theirs.keys():
                    order = _order(mine[key].tolist(), theirs[key].tolist())
                    if order is not None and found.get(key[0]) != REORDERED:
                        found[key[0]] = order
        return dict(sorted(found.items()))


def _has_examples(tensor: Tensor) -> bool:
    return (
        not _is_transformed(tensor)
        and has_value(tensor)
        and tensor.layout == torch.strided
        and tensor.dim() > 1
        and 1 < tensor.shape[0] <= _MAXIMUM_EXAMPLES
        and 0 < tensor.numel() <= _MAXIMUM_ELEMENTS
        and not tensor.is_complex()
        and tensor.dtype != torch.bool
    )


def _print_of(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        values = local_tensor(tensor).detach().flatten(1).float()
        return values @ torch.linspace(1, 2, values.shape[1], device=values.device)


def _order(mine: Sequence[float], theirs: Sequence[float]) -> int | None:
    """How two lists of as many examples stand to each other; None where that cannot be told."""
    largest = max(map(abs, (*mine, *theirs)))
    if not largest < float("inf"):
        return None
    margin = _RELATIVE * largest

    def alike(first: Sequence[float], second: Sequence[float]) -> bool:
        return all(abs(a - b) <= margin for a, b in zip(first, second, strict=True))

    if alike(mine, theirs):
        return SAME
    ordered = sorted(mine), sorted(theirs)
    if not alike(*ordered):
        return OTHER
    apart = all(b - a > 4 * margin for a, b in zip(ordered[0], ordered[0][1:], strict=False))
    return REORDERED if apart else None
