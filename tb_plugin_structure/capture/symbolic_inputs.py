"""Which dimensions of the inputs are symbols, and under which names."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tb_plugin_structure.capture.nested import named_arguments

Symbolic = bool | Mapping[str, Sequence[str | int | None]]
"""What :func:`capture` takes: True, or argument -> a name (free) or number (fixed) for each dimension."""

_RESERVED = frozenset({"min", "max", "floor", "ceil", "trunc", "round"})
_DATA_NAME = re.compile(r"data\d+")
"""Names of sizes that depend on values."""
_FLOAT_NAMES = {4: ("B", "C", "H", "W"), 5: ("B", "C", "T", "H", "W"), 3: ("B", "L", "D"), 2: ("B", "D"), 1: ("B",)}
_INTEGER_NAMES = {2: ("B", "L"), 1: ("B",), 3: ("B", "L", "D"), 4: ("B", "C", "H", "W")}
_STEP = 64
"""Sizes that happen to be equal are told apart by adding multiples of this: models like multiples of powers of two."""


@dataclass(frozen=True)
class SymbolicInput:
    """One tensor argument.

    Attributes:
        path: Its name in the record: '0', 'input_ids', 'past.0.1'.
        tensor: The tensor of the recorded pass.
        names: A name for each free dimension, None for those that keep their size.
    """

    path: str
    tensor: Tensor
    names: tuple[str | None, ...]


def symbolic_inputs(
    symbolic: Symbolic, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[SymbolicInput]:
    """The tensor arguments with the names of their dimensions.

    Raises:
        ValueError: When an argument of that name is not given, the number of dimensions differs, a number is not the
            size, a name is no identifier, or one name stands for different sizes.
        TypeError: When `symbolic` is neither a bool nor a mapping.
    """
    tensors = {path: tensor for path, tensor in named_arguments(args, kwargs) if _has_sizes(tensor)}
    if symbolic is True:
        return list(_default_names(tensors))
    if not isinstance(symbolic, Mapping):
        raise TypeError(
            f"symbolic is {type(symbolic).__name__}, expected True or a mapping from arguments to names of dimensions, "
            'e.g. {"images": ("B", 3, "H", "W")}'
        )
    chosen: dict[str, tuple[str | None, ...]] = {}
    sizes: dict[str, tuple[int, str]] = {}
    positions = _positional_names(model)
    for key, dimensions in symbolic.items():
        path = key if key in tensors else positions.get(key, key)
        if path not in tensors:
            known = ", ".join(sorted({*tensors, *(name for name, at in positions.items() if at in tensors)}))
            raise ValueError(f"symbolic names {key!r}, but the tensor arguments of this pass are {known or 'none'}")
        chosen[path] = _checked(key, tensors[path], dimensions, sizes)
    return [SymbolicInput(path, tensor, chosen.get(path, (None,) * tensor.dim())) for path, tensor in tensors.items()]


def sizes_of(inputs: Sequence[SymbolicInput]) -> dict[str, int]:
    """Name -> size in the recorded pass, in the order of the inputs."""
    return {
        name: int(size)
        for item in inputs
        for name, size in zip(item.names, item.tensor.shape, strict=True)
        if name is not None
    }


def probes(inputs: Sequence[SymbolicInput]) -> list[dict[str, int]]:
    """Sizes to run the pass on symbols with, best first.

    A symbol that happens to be 1, or equal to another one of its tensor, would be taken for that number, or for that
    other one, wherever a model or torch asks. So other sizes are tried first; the last are those of the recorded pass.
    """
    recorded = sizes_of(inputs)
    larger = {name: max(size, 2) for name, size in recorded.items()}
    first = {item.names[0] for item in inputs if item.names}
    batch_only = {name: max(size, 2) if name in first else size for name, size in recorded.items()}
    apart = dict(larger)
    for item in inputs:
        for position, name in enumerate(item.names):
            earlier = {apart[other] for other in item.names[:position] if other is not None and other != name}
            while name is not None and apart[name] in earlier:
                apart[name] += _STEP
    found: list[dict[str, int]] = []
    for sizes in (apart, larger, batch_only, recorded):
        if sizes not in found:
            found.append(sizes)
    return found


def _has_sizes(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized


def _default_names(tensors: Mapping[str, Tensor]) -> Iterator[SymbolicInput]:
    """Customary letters; every dimension of every input has its own name, as the pass shows which of them are one."""
    taken: set[str] = set()
    for path, tensor in tensors.items():
        customary = (_FLOAT_NAMES if tensor.is_floating_point() or tensor.is_complex() else _INTEGER_NAMES).get(
            tensor.dim(), tuple(f"d{position}" for position in range(tensor.dim()))
        )
        names = []
        for letter in customary:
            name, number = letter, 1
            while name in taken:
                number += 1
                name = f"{letter}{number}" if letter.isalpha() else f"{letter}_{number}"
            taken.add(name)
            names.append(name)
        yield SymbolicInput(path, tensor, tuple(names))


def _positional_names(model: nn.Module) -> dict[str, str]:
    """Name of each positional parameter of the model's forward -> its position as text."""
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return {}
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {parameter.name: str(at) for at, parameter in enumerate(parameters) if parameter.kind in named}


def _checked(key: str, tensor: Tensor, dimensions: Any, sizes: dict[str, tuple[int, str]]) -> tuple[str | None, ...]:
    shape = list(tensor.shape)
    if isinstance(dimensions, str) or len(dimensions) != len(shape):
        raise ValueError(
            f"symbolic gives {dimensions!r} for {key!r}, expected a name or number for each of its {len(shape)} "
            f"dimensions; its shape is {shape}"
        )
    names: list[str | None] = []
    for position, (entry, size) in enumerate(zip(dimensions, shape, strict=True)):
        if entry is None or entry == size:
            names.append(None)
        elif isinstance(entry, str):
            plain = entry.isidentifier() and not keyword.iskeyword(entry) and entry not in _RESERVED
            if not plain or _DATA_NAME.fullmatch(entry):
                raise ValueError(
                    f"symbolic names a dimension of {key!r} {entry!r}, expected a plain name such as 'B' or 'height' "
                    f"(not {', '.join(sorted(_RESERVED))}, nor 'data0', 'data1', ...)"
                )
            known = sizes.setdefault(entry, (size, key))
            if known[0] != size:
                raise ValueError(
                    f"symbolic uses {entry!r} for {known[0]} in {known[1]!r} and for {size} in {key!r}: "
                    "one name stands for one size"
                )
            names.append(entry)
        else:
            raise ValueError(f"symbolic says {entry!r} for dimension {position} of {key!r}, which has size {size}")
    return tuple(names)
