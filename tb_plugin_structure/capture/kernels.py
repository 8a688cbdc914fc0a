"""What is known about each kernel from its schema: what it writes, whether its results share memory with arguments."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import torch

_PLAIN_TYPE = re.compile(
    r"(Optional\[|List\[)*(Tensor|number|Scalar|int|float|bool|str|SymInt|Device|Generator|complex|Layout"
    r"|MemoryFormat|ScalarType)\]*"
)

FRESH, VIEW, UNSURE = range(3)
"""Results in new memory; results that share an argument's memory; only the addresses can tell."""


class KernelFacts(NamedTuple):
    """Facts about one operator overload.

    Attributes:
        func: The overload itself.
        name: E.g. "aten.addmm.default".
        packet: E.g. "aten::addmm".
        memory: FRESH, VIEW or UNSURE.
        written_positions: Positional arguments that it writes.
        written_names: The same by keyword.
        takes_constant: Its argument is a tensor that was made from Python numbers a moment ago.
        skipped: Asked for by Python bindings only, or a mark for a profiler; not part of what a model computes.
        argument_names: Names of the arguments, in order.
        tensor_positions: Where tensors may be among the positional arguments; None when they may be in lists as well.
        run: What to call: the overload without its Python wrapper.
        has_plain_arguments: Whether all its arguments are tensors, numbers, text, or lists of them.
    """

    func: Any
    name: str
    packet: str
    memory: int
    written_positions: tuple[int, ...]
    written_names: tuple[str, ...]
    takes_constant: bool
    skipped: bool
    argument_names: tuple[str, ...]
    tensor_positions: tuple[int, ...] | None
    run: Any
    has_plain_arguments: bool = False


def facts_of(func: Any) -> KernelFacts:
    """Read the facts off an overload's schema. Higher-order operators have none: their results are UNSURE."""
    name = str(func)
    schema = getattr(func, "_schema", None)
    if schema is None:
        return KernelFacts(func, name, f"higher_order::{name}", UNSURE, (), (), False, False, (), None, func)
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
    return KernelFacts(
        func,
        name,
        schema.name,
        memory,
        tuple(positions),
        tuple(names),
        name == "aten.lift_fresh.default",
        name == "prim.device.default" or name.startswith("profiler."),
        tuple(argument.name for argument in schema.arguments),
        _tensor_positions(schema),
        getattr(func, "_op", func),
        all(_PLAIN_TYPE.fullmatch(str(argument.type)) is not None for argument in schema.arguments),
    )


def _tensor_positions(schema: Any) -> tuple[int, ...] | None:
    kinds = [str(argument.type) for argument in schema.arguments]
    if any("Tensor" in kind and kind not in ("Tensor", "Optional[Tensor]") for kind in kinds):
        return None
    return tuple(position for position, kind in enumerate(kinds) if "Tensor" in kind)


def _composite(func: Any) -> bool:
    """Whether it is written in terms of other operators, one of whose results it may hand through (``reshape``).

    Decompositions in Python, for compilers, do not count: what runs here is the kernel.
    """
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))
    except Exception:  # a name without a registered kernel
        return True
