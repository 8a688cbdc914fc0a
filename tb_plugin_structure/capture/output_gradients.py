"""Gradients at the outputs of modules: whether one arrives there in the user's backward pass, and how large it is."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from tb_plugin_structure.capture.gradient_norms import norm_of, values_of
from tb_plugin_structure.capture.nested import named_tensors
from tb_plugin_structure.capture.observer import ObservedModel

_is_transformed = torch._C._functorch.is_functorch_wrapped_tensor


class OutputGradients:
    """Hooks on the tensors that modules return; they look at each gradient and change nothing.

    A tensor that several modules return (the last layer's and the model's) is looked at once. Tensors are held weakly,
    gradients not at all. Outputs that are made in a backward pass count too: reentrant checkpoints run their forward
    without gradients first, and the gradients go through what they compute again.
    """

    def __init__(self, models: Sequence[ObservedModel]) -> None:
        self._rows: dict[int, tuple[int, int]] = {}
        for index, model in enumerate(models):
            for key, row in model.table.row_of.items():
                self._rows.setdefault(key, (index, row))
        self._watched: dict[int, tuple[Any, int, int]] = {}
        """id of a tensor -> (reference, version, slot)."""
        self._owners: list[list[tuple[int, int]]] = []
        """Slot -> (model, row) of the modules that returned the tensor."""
        self._norms: dict[int, Tensor | None] = {}
        """Slot -> norm of what arrived; None when it could not be measured."""
        self._handles: list[Any] = []
        self._thread = 0

    @property
    def arrived(self) -> bool:
        """Whether a gradient arrived anywhere."""
        return bool(self._norms)

    def start(self) -> None:
        self._thread = threading.get_ident()
        self._handles.append(register_module_forward_hook(self._returned))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for reference, _, _ in self._watched.values():
            tensor = reference()
            if tensor is not None and tensor._backward_hooks is not None and not tensor._backward_hooks:
                tensor._backward_hooks = None  # an emptied dictionary would stay behind
        self._watched.clear()

    def _returned(self, module: nn.Module, _: Any, output: Any) -> None:
        owner = self._rows.get(id(module))
        if owner is None or threading.get_ident() != self._thread or not torch.is_grad_enabled():
            return
        for _name, tensor in named_tensors(output):
            try:
                if tensor.requires_grad and not _is_transformed(tensor):
                    self._watch(tensor, owner)
            except Exception:  # a kind of tensor that takes no hooks; a recording must not end a training step
                continue

    def _watch(self, tensor: Tensor, owner: tuple[int, int]) -> None:
        # A write in place gives a tensor a new place in the graph: what hangs on the old one stays there.
        version = tensor._version
        known = self._watched.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == version:
            self._owners[known[2]].append(owner)
            return
        slot = len(self._owners)
        # A view whose base was written since is given its new place in the graph when it is asked for it; register_hook
        # does not ask, and ends the process (torch 2.13).
        _ = tensor.grad_fn
        self._handles.append(tensor.register_hook(_measuring(slot, self._norms)))
        self._owners.append([owner])
        self._watched[id(tensor)] = (weakref.ref(tensor), version, slot)

    def of_model(self, index: int) -> dict[int, tuple[float, bool]]:
        """Row of each module that returned something differentiable -> (L2 norm of the gradients of all its outputs and
        calls, NaN when none arrived or they have no values; whether one arrived)."""
        slots = [slot for slot, norm in self._norms.items() if norm is not None]
        norms = dict(zip(slots, values_of([self._norms[slot] for slot in slots]), strict=True))  # type: ignore[misc]
        squares: dict[int, float] = {}
        found: dict[int, tuple[float, bool]] = {}
        for slot, owners in enumerate(self._owners):
            for model, row in dict.fromkeys(owners):
                if model != index:
                    continue
                arrived = slot in self._norms
                found[row] = (math.nan, arrived or found.get(row, (0.0, False))[1])
                if arrived:
                    squares[row] = squares.get(row, 0.0) + norms.get(slot, math.nan) ** 2
        for row, square in squares.items():
            found[row] = (math.sqrt(square), True)
        return dict(sorted(found.items()))


def _measuring(slot: int, norms: dict[int, Tensor | None]) -> Any:
    def hook(gradient: Tensor) -> None:
        try:
            norms[slot] = norm_of(gradient)
        except Exception:  # a gradient without a norm has arrived all the same
            norms[slot] = None

    return hook
