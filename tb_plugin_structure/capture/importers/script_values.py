"""Values while a TorchScript graph is walked: tensors by their rows, nests of them, modules, what only a run tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Value:
    """A tensor, by the rows of the values that it may be: several where branches meet."""

    rows: tuple[int, ...]


@dataclass(frozen=True)
class Module:
    """A scripted module and its path in the model."""

    path: str
    module: Any


class Unknown:
    """A number, size or flag that only a run would tell."""


UNKNOWN = Unknown()


def filled(shape: Any, rows: Sequence[int]) -> Any:
    """A nest with numbers of tensors as a nest of the tensors; what is no tensor is unknown."""
    if isinstance(shape, int):
        return Value((rows[shape],))
    return [filled(item, rows) for item in shape] if isinstance(shape, list) else UNKNOWN


def rows_of(value: Any) -> list[int]:
    """Rows of all tensors in a value."""
    if isinstance(value, Value):
        return list(value.rows)
    if isinstance(value, dict):
        value = list(value.values())
    return [row for item in value for row in rows_of(item)] if isinstance(value, (list, tuple)) else []


def named_rows(value: Any, name: str) -> list[tuple[str, int]]:
    """(element name, row) of each tensor in a value; where branches meet, that of each branch."""
    if isinstance(value, Value):
        return [(name, row) for row in value.rows]
    if isinstance(value, (list, tuple)):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return []
    return [pair for key, item in value.items() for pair in named_rows(item, f"{name}.{key}" if name else str(key))]


def element_of(whole: Any, index: Any) -> Any:
    """``whole[index]``; all tensors of `whole` where the index is not known."""
    if isinstance(whole, dict):
        return whole.get(str(index), UNKNOWN)
    if isinstance(whole, (list, tuple)) and isinstance(index, int):
        return whole[index] if -len(whole) <= index < len(whole) else UNKNOWN
    return Value(tuple(rows_of(whole)))


def either(choices: Sequence[Any]) -> Any:
    """What a value may be after branches have met."""
    rows = tuple(dict.fromkeys(row for choice in choices for row in rows_of(choice)))
    if rows and all(not isinstance(choice, (list, dict)) for choice in choices):
        return Value(rows)
    first = choices[0]
    return first if all(choice is first or choice == first for choice in choices) or rows else UNKNOWN


def outlined(value: Any, inputs: list[int]) -> Any:
    """An argument with its tensors as ``{"t": k}``; their rows are appended to `inputs`."""
    if isinstance(value, Value):
        inputs.extend(value.rows)
        return {"t": len(inputs) - len(value.rows)}
    if isinstance(value, (list, tuple)):
        return [outlined(item, inputs) for item in value]
    return value if isinstance(value, (bool, int, float, str)) else None
