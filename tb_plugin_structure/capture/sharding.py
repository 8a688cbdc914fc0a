"""Parameters and values that are spread over processes: what lies here, what all processes hold together.

Nothing here communicates. A collective that one rank starts alone would hang the training, so the parts that lie on
other ranks are never asked for: global shapes and placements are what each rank knows anyway.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn


class Spread(NamedTuple):
    """How a tensor is spread.

    Attributes:
        shape: Global shape.
        local_shape: Shape of the part on this rank.
        placement: E.g. "Shard(dim=0) over 2 (tp)".
    """

    shape: tuple[int, ...]
    local_shape: tuple[int, ...]
    placement: str


def distributed_tensor_class() -> type | None:
    """``DTensor``, when the program uses it; importing it costs a second, so this does not."""
    module = sys.modules.get("torch.distributed.tensor")
    found = getattr(module, "DTensor", None)
    return found if isinstance(found, type) else None


def local_tensor(tensor: Tensor) -> Tensor:
    """The part of a tensor that lies here; the tensor itself when it is not spread."""
    distributed = distributed_tensor_class()
    return tensor._local_tensor if distributed is not None and isinstance(tensor, distributed) else tensor  # type: ignore[attr-defined,no-any-return]


def local_parts(value: Any) -> Any:
    """Arguments of a kernel with each tensor that is spread replaced by the part that lies here."""
    distributed = distributed_tensor_class()
    if distributed is None:
        return value
    if isinstance(value, (list, tuple)):
        return [local_parts(item) for item in value]
    if isinstance(value, Mapping):
        return {key: local_parts(item) for key, item in value.items()}
    return local_tensor(value) if isinstance(value, Tensor) else value


def spread_of(tensor: Tensor) -> Spread | None:
    """How a ``DTensor`` is spread; None for other tensors."""
    distributed = distributed_tensor_class()
    if distributed is None or not isinstance(tensor, distributed):
        return None
    specification: Any = tensor._spec  # type: ignore[attr-defined]
    mesh = specification.mesh
    names = mesh.mesh_dim_names or ("",) * mesh.ndim
    parts = [
        f"{placement!r} over {mesh.size(dimension)}" + (f" ({name})" if name else "")
        for dimension, (placement, name) in enumerate(zip(specification.placements, names, strict=True))
    ]
    return Spread(tuple(tensor.shape), tuple(local_tensor(tensor).shape), ", ".join(parts))


def flat_shards(wrapper: nn.Module, path: str) -> dict[str, tuple[int, ...]]:
    """Global shapes of the parameters that a ``FullyShardedDataParallel`` keeps in one flat parameter, by path. `path`
    is that of the wrapped module."""
    flat = getattr(getattr(wrapper, "_handle", None), "flat_param", None)
    names, shapes = getattr(flat, "_fqns", None), getattr(flat, "_shapes", None)
    if names is None or shapes is None:
        return {}
    return {f"{path}.{name}" if path else name: tuple(shape) for name, shape in zip(names, shapes, strict=False)}


def original_class(module: nn.Module) -> type:
    """Class that a person wrote: ``fully_shard`` puts a class 'FSDPLinear' in place of 'Linear'."""
    kind = type(module)
    bases = kind.__bases__
    if len(bases) == 2 and bases[0].__name__ == "FSDPModule" and kind.__name__ == f"FSDP{bases[1].__name__}":
        return bases[1]
    return kind


def is_fully_sharded(module: nn.Module) -> bool:
    """Whether ``fully_shard`` was applied to a module."""
    return original_class(module) is not type(module)
