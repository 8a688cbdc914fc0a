"""A structure as a tree to read in a terminal: what ``print(structure)`` shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tb_plugin_structure.records.structure import Structure

_HEAD = ("module", "output", "parameters", "MACs")
_Line = tuple[str, str, str, str]


def tree_text(structure: Structure) -> str:
    """One line a module call, with its output shape, the parameters at or below it and its multiply-accumulates.

    Calls in a row that are alike in all of this, and inside, are one line: "layer.0 … layer.11  BertLayer ×12". Sizes
    are shown as expressions where the record has them.
    """
    lines: list[_Line] = []
    alike = _signatures(structure)
    waiting: list[tuple[int, list[int]]] = [(0, [0])] if structure.module_calls.rows else []
    while waiting:
        depth, calls = waiting.pop()
        lines.append(_line(structure, depth, calls))
        children = structure.call_children[calls[0]]
        runs = [list(run) for _, run in groupby(children, key=alike.__getitem__)]
        waiting.extend((depth + 1, run) for run in reversed(runs))
    return "\n".join([*_table(lines), "", *_totals(structure)])


def _signatures(structure: Structure) -> list[int]:
    """For each module call a number; equal ones look the same in the tree, but for their places in a list."""
    known: dict[object, int] = {}
    found = [0] * structure.module_calls.rows
    for call in range(len(found) - 1, -1, -1):  # children come after their parents
        stem = structure.call_path(call).rpartition(".")[2].rstrip("0123456789")
        cost = structure.call_macs(call)
        key = (
            stem,
            structure.call_class(call),
            tuple(structure.output_shapes(call)),
            structure.parameter_count(int(structure.module_calls["module"][call])),
            None if math.isnan(cost) else cost,
            tuple(found[child] for child in structure.call_children[call]),
        )
        found[call] = known.setdefault(key, len(known))
    return found


def _line(structure: Structure, depth: int, calls: Sequence[int]) -> _Line:
    first, last = calls[0], calls[-1]
    parent = int(structure.module_calls["parent"][first])
    names = [_within(structure.call_path(call), structure.call_path(parent) if parent >= 0 else "") for call in calls]
    name = names[0] or structure.name
    if names[0] != names[-1]:
        name = f"{names[0]} … {names[-1]}"
    times = f" ×{len(calls)}" if len(calls) > 1 else ""
    count = structure.parameter_count(int(structure.module_calls["module"][first]))
    macs = structure.call_macs(last)
    return (
        f"{'  ' * depth}{name}  {structure.call_class(first)}{times}",
        ", ".join(_shape(structure, tensor) for tensor in structure.module_calls.values("outputs", first)[:4].tolist()),
        f"{count:,}" if count else "",
        "?" if math.isnan(macs) else f"{macs:,.0f}" if macs else "",
    )


def _within(path: str, parent: str) -> str:
    return path[len(parent) + 1 :] if parent and path.startswith(f"{parent}.") else path


def _shape(structure: Structure, tensor: int) -> str:
    return "×".join(structure.symbolic_shape(tensor) or map(str, structure.shape(tensor)))


def _table(lines: Sequence[_Line]) -> list[str]:
    rows = [_HEAD, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {count:>{widths[2]}}  {macs:>{widths[3]}}".rstrip()
        for name, shape, count, macs in rows
    ]


def _totals(structure: Structure) -> list[str]:
    totals = structure.header.totals
    unknown = totals.kernels_without_formula
    lines = [
        f"{totals.parameters:,} parameters ({totals.trainable_parameters:,} trainable), "
        f"{totals.parameter_bytes:,} bytes; buffers {totals.buffer_bytes:,} bytes",
        f"{totals.macs:,.0f} MACs" + (f", {unknown:,} kernels without a formula" if unknown else ""),
        f"{totals.activation_bytes:,} bytes of activations; {totals.operators:,} operators",
    ]
    if structure.header.HasField("error"):
        lines.append(f"stopped by {structure.header.error.type}: {structure.header.error.message}")
    return [*lines, *structure.header.notes]
