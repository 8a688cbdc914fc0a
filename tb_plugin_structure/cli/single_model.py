"""Tables about one model: its records, its stages, its operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.analysis.audit.formats import count_text, duration_text, shape_text
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.stages import BLOCK, LEVEL_NAMES
from tb_plugin_structure.analysis.audit.wording import operator_text
from tb_plugin_structure.cli.event_files import Key
from tb_plugin_structure.cli.tables import Exact
from tb_plugin_structure.records.structure import Structure

TableParts = tuple[Sequence[str], list[list[Any]], frozenset[int]]
"""Head, rows, columns aligned to the right."""


def record_list(records: Sequence[tuple[Key, Structure]]) -> TableParts:
    """One row a record."""
    head = ("run", "record", "step", "class", "parameters", "MACs", "calls", "operators", "mode", "hash")
    rows = [
        [
            key.run or ".",
            key.tag,
            key.step,
            structure.header.model_class,
            _whole(structure.header.totals.parameters),
            _count(structure.header.totals.macs),
            structure.header.totals.module_calls,
            structure.header.totals.operators,
            "train" if structure.header.provenance.training else "eval",
            structure.header.structure_hash[:8],
        ]
        for key, structure in records
    ]
    return head, rows, frozenset({2, 4, 5, 6, 7})


def stage_table(structure: Structure) -> TableParts:
    """Module calls down to blocks."""
    side = Side(structure, "model")
    head = (
        "level", "module", "class", "output", "layout", "dtype", "parameters", "MACs", "activation bytes", "peak bytes",
        "time", "flags",
    )  # fmt: skip
    rows = []
    for call in range(structure.module_calls.rows):
        _, level = side.stages.of_call(call)
        if level > BLOCK:
            continue
        feature = side.feature(call)
        rows.append(
            [
                LEVEL_NAMES[level],
                feature.path or "(model)",
                feature.class_name,
                _output(feature.shape, feature.symbols),
                feature.layout,
                feature.dtype,
                _whole(side.parameter_count(int(structure.module_calls["module"][call]))),
                _count(structure.call_macs(call)),
                _count(structure.call_activation_bytes(call)),
                _count(side.peak_bytes(call)),
                _duration(side.duration_ns(call)),
                ", ".join(feature.flags),
            ]
        )
    return _without_unknown(head, rows, right={6, 7, 8, 9, 10}, optional=("peak bytes", "time"))


def _output(shape: Sequence[int], symbols: Sequence[str]) -> str:
    """'2×8×4×4 = B×8×(H//16)×(W//16)'; the shape alone where every dimension is a number, or nothing is known."""
    if all(size.isdecimal() for size in symbols):
        return shape_text(shape)
    factors = [size if size.isidentifier() or size.isdecimal() else f"({size})" for size in symbols]
    return f"{shape_text(shape)} = {'×'.join(factors)}"


def operator_table(structure: Structure, *, only_changes: bool) -> TableParts:
    """Operators in execution order: input shapes, output shapes, cost, source; `only_changes` keeps those whose first
    output has another shape than their first input."""
    head = (
        "#", "operator", "module", "inputs", "outputs", "dtype", "device", "MACs", "activation bytes", "saved bytes",
        "time", "source",
    )  # fmt: skip
    operators = structure.operators
    durations, saved = (
        operators[name].tolist() if name in operators else [math.nan] * operators.rows
        for name in ("duration_ns", "saved_bytes")
    )
    rows = []
    for row in range(operators.rows):
        inputs = [structure.shape(tensor) for tensor in operators.values("inputs", row).tolist()]
        produced = operators.values("outputs", row).tolist()
        outputs = [structure.shape(tensor) for tensor in produced]
        if only_changes and (not inputs or not outputs or inputs[0] == outputs[0]):
            continue
        rows.append(
            [
                row,
                operator_text(operators.text("name", row)),
                structure.call_path(int(operators["call"][row])),
                _shapes(inputs),
                _shapes(outputs),
                structure.tensors.text("dtype", produced[0]) if produced else "",
                structure.tensors.text("device", produced[0]) if produced else "",
                _count(float(operators["macs"][row])),
                _count(float(operators["activation_bytes"][row])),
                _count(saved[row]),
                _duration(durations[row]),
                operators.text("source", row),
            ]
        )
    return _without_unknown(head, rows, right={0, 7, 8, 9, 10}, optional=("saved bytes", "time"))


def _whole(number: int) -> Exact:
    return Exact(f"{number:,}", number)


def _count(number: float) -> Exact:
    return Exact(count_text(number), number)


def _duration(nanoseconds: float) -> Exact:
    return Exact(duration_text(nanoseconds), nanoseconds)


def _shapes(shapes: Sequence[tuple[int, ...]]) -> Exact:
    return Exact(" ".join(map(shape_text, shapes)), [list(shape) for shape in shapes])


def _without_unknown(
    head: Sequence[str], rows: list[list[Any]], *, right: set[int], optional: Sequence[str]
) -> TableParts:
    """The table without those of the optional columns that the record has no value for."""
    empty = {place for place, name in enumerate(head) if name in optional and all(row[place] == "?" for row in rows)}
    kept = [place for place in range(len(head)) if place not in empty]
    return (
        [head[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        frozenset(new for new, place in enumerate(kept) if place in right),
    )
