"""Recording without weights and without computing: the pass runs on fake tensors that have a shape but no values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.nn.utils.stateless import _reparametrize_module  # type: ignore[attr-defined]
from torch.utils._pytree import tree_map

VALUE_ERRORS = frozenset(
    {
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "GuardOnDataDependentSymNode",
        "UnsupportedFakeTensorException",
        "UnsupportedOperatorException",
    }
)
"""What a pass on fake tensors raises where it needs values, or a kernel that cannot do without."""


@contextlib.contextmanager
def fake_model(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Within, `model` has fake parameters and buffers and new tensors are fake; yields fake inputs.

    The model gets its own tensors back at the end, whatever happened. Tensors in objects that are no plain containers
    stay real and are read as they are.
    """
    # Imported here: they bring sympy, which takes a second to load.
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())

    def fake(value: Any) -> Any:
        return mode.from_tensor(value, static_shapes=True) if isinstance(value, Tensor) else value

    fake_args, fake_kwargs = tree_map(fake, (tuple(args), dict(kwargs)))
    with fake_weights(model, mode):
        yield fake_args, fake_kwargs


@contextlib.contextmanager
def fake_weights(model: nn.Module, mode: Any) -> Iterator[None]:
    """Within, `mode` (a ``FakeTensorMode``) is entered and `model` has fake parameters and buffers of fixed sizes."""
    registered = {
        name: tensor
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        if not isinstance(tensor, UninitializedTensorMixin)
    }
    with mode:
        swapped = {name: mode.from_tensor(tensor, static_shapes=True) for name, tensor in registered.items()}
        with _reparametrize_module(model, swapped, tie_weights=True) if swapped else contextlib.nullcontext():
            yield
