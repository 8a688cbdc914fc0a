"""Further passes of a model that was just recorded, for what one pass under observation cannot show: times, memory."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._pytree import tree_map

from tb_plugin_structure.capture.nested import named_tensors
from tb_plugin_structure.capture.state import RandomState, preserved_state
from tb_plugin_structure.capture.weightless import fake_model


class Repetition:
    """Made before the recorded pass: each repetition gets the inputs and random numbers that the recorded one got.

    Buffers and random states are put back after each repetition, and inputs are copies, as a pass may write into them.

    Attributes:
        refusal: Why the pass cannot be repeated without changing something of the user's; '' when it can.
    """

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, fake: bool) -> None:
        self._model = model
        self._fake = fake
        self._random = RandomState(model)
        self._versions = _versions(model)
        self.refusal = ""
        try:
            self._given = _copied((args, dict(kwargs)))
        except Exception as error:
            self.refusal = f"the inputs cannot be copied ({type(error).__name__}: {str(error).splitlines()[0][:120]})"

    def check(self) -> None:
        """To be called after the recorded pass: a pass that writes into parameters is not repeated."""
        if not self.refusal and _versions(self._model) != self._versions:
            self.refusal = "the pass writes into the model's parameters"

    def run(self, watcher: Any) -> None:
        """One pass under `watcher`, an object with ``watching(model, args, kwargs)`` that gives a context manager."""
        args, kwargs = _copied(self._given)
        with contextlib.ExitStack() as stack:
            if self._fake:
                args, kwargs = stack.enter_context(fake_model(self._model, args, kwargs))
            stack.enter_context(preserved_state(self._model))
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            self._random.restore()
            stack.enter_context(watcher.watching(self._model, args, kwargs))
            self._model(*args, **kwargs)


def _versions(model: nn.Module) -> list[int]:
    """How often each parameter was written. One that has no shape yet counts as never: to make it is a write."""
    return [
        -1 if isinstance(parameter, UninitializedTensorMixin) else parameter._version
        for parameter in model.parameters()
        if isinstance(parameter, UninitializedTensorMixin) or not parameter.is_inference()
    ]


def _copied(value: Any) -> Any:
    """A copy of all tensors in a nest, equal ones staying one; objects are copied when they hold tensors."""
    known: dict[int, Tensor] = {}

    def of(item: Any) -> Any:
        if isinstance(item, Tensor):
            made = known.get(id(item))
            if made is None:
                made = known[id(item)] = item.detach().clone().requires_grad_(item.requires_grad)
            return made
        return copy.deepcopy(item, dict(known)) if named_tensors(item) else item

    return tree_map(of, value)
