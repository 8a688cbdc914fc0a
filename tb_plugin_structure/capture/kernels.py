"""What is known about each kernel from its schema: what it writes, whether its results share memory with arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

FRESH, VIEW, UNSURE = range(3)
"""Results in new memory; results that share an argument's memory; only the addresses can tell."""

_OPAQUE = ("prim.device.default", "aten._local_scalar_dense.default")


class KernelFacts(NamedTuple):
    """Facts about one operator overload.

    Attributes:
        memory: FRESH, VIEW or UNSURE.
        written_positions: Positional arguments that it writes.
        written_names: The same by keyword.
        skipped: Asked for by Python bindings only; not part of what a model computes.
    """

    memory: int
    written_positions: tuple[int, ...]
    written_names: tuple[str, ...]
    skipped: bool


def facts_of(func: Any) -> KernelFacts:
    """Read the facts off an overload's schema. Higher-order operators have none: their results are UNSURE."""
    name = str(func)
    schema = getattr(func, "_schema", None)
    if schema is None:
        return KernelFacts(UNSURE, (), (), False)
    positions: list[int] = []
    names: list[str] = []
    for position, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        if alias is not None and alias.is_write:
            positions.append(position)
            names.append(argument.name)
    memory = FRESH
    if any(result.alias_info is not None for result in schema.returns):
        memory = VIEW
    if not name.startswith("aten.") or _composite(func):
        memory = UNSURE  # may return its argument, or a view of it, without saying so
    return KernelFacts(memory, tuple(positions), tuple(names), name == "prim.device.default")


def _composite(func: Any) -> bool:
    try:
        return bool(func._can_decompose())
    except Exception:  # a name without a registered kernel
        return True
