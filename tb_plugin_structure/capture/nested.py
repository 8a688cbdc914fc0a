"""Find the tensors in whatever a model takes or returns: containers, dataclasses, caches, plain objects."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from types import MemberDescriptorType
from typing import Any

import torch
from torch import Tensor

MAXIMUM_DEPTH = 6
"""Deeper nests are not looked into; caches of decoders need four levels."""

_PLAIN = frozenset(
    {
        *(str, bytes, int, float, bool, complex, type(None)),
        *(torch.dtype, torch.device, torch.Size, torch.SymInt, torch.SymFloat, torch.SymBool),
    }
)


def named_tensors(value: Any, name: str = "") -> list[tuple[str, Tensor]]:
    """All tensors in `value` with the path that leads to each.

    >>> named_tensors({"hidden": [a, b]})
    [('hidden.0', a), ('hidden.1', b)]

    A tensor that occurs twice is listed twice; objects that contain themselves are entered once.
    """
    if isinstance(value, Tensor):
        return [(name, value)]
    if type(value) in _PLAIN:
        return []
    found: list[tuple[str, Tensor]] = []
    _collect(value, name, found, 0, set())
    return found


def named_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    """The tensors among the arguments of a call: '0', '1.x' for positional ones, the keyword for the others."""
    if len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
        return [("0", args[0])]
    found: list[tuple[str, Tensor]] = []
    for position, value in enumerate(args):
        if isinstance(value, Tensor):
            found.append((str(position), value))
        elif type(value) not in _PLAIN:
            _collect(value, str(position), found, 0, set())
    for key, value in kwargs.items():
        if isinstance(value, Tensor):
            found.append((key, value))
        elif type(value) not in _PLAIN:
            _collect(value, key, found, 0, set())
    return found


def _collect(value: Any, name: str, found: list[tuple[str, Tensor]], depth: int, entered: set[int]) -> None:
    if depth > MAXIMUM_DEPTH or id(value) in entered:
        return
    entered.add(id(value))
    for key, child in _children(value):
        path = f"{name}.{key}" if name else key
        if isinstance(child, Tensor):
            found.append((path, child))
        elif type(child) not in _PLAIN:
            _collect(child, path, found, depth + 1, entered)
    entered.discard(id(value))


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds. Properties and methods are never called: looking must not run anything."""
    if isinstance(value, Mapping):
        for key, child in list(value.items()):
            yield str(key), child
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=False)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for position, child in enumerate(list(value)):
            yield str(position), child
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield field.name, getattr(value, field.name, None)
    elif not isinstance(value, (type, torch.nn.Module)) and not callable(value):
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            yield from list(attributes.items())
        for kind in type(value).__mro__:
            if "__slots__" in vars(kind):
                yield from _slots(value, kind)


def _slots(value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """What an object holds in the slots of one of its classes; slots that were never set are left out."""
    for name, slot in vars(kind).items():
        if isinstance(slot, MemberDescriptorType):
            with contextlib.suppress(AttributeError):
                yield name, slot.__get__(value)
