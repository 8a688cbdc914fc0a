"""ATen operators of a stored program: shared memory, writes in place, arguments and cost, from their schemas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor as TorchTensor

from tb_plugin_structure.capture.kernels import UNSURE, VIEW, KernelFacts
from tb_plugin_structure.capture.macs import has_formula, macs_of, may_multiply
from tb_plugin_structure.capture.sketches import sketch
from tb_plugin_structure.capture.static_tables import dtype_name, shape_of
from tb_plugin_structure.records.graph_builder import GraphBuilder, Parameter, Scope, Tensor

_PERHAPS_VIEWS = frozenset(
    (
        "reshape",
        "flatten",
        "unflatten",
        "contiguous",
        "ravel",
        "to",
        "type_as",
        "expand_as",
        "view_as",
        "chunk",
        "split",
        "tensor_split",
        "narrow",
        "movedim",
        "moveaxis",
        "swapaxes",
        "swapdims",
        "adjoint",
        "numpy_T",
        "matrix_H",
        "mT",
        "mH",
    )
)
"""Composite operators whose schema does not say that they return a view; they do unless they must copy."""

MAXIMUM_ATTRIBUTE_TEXT = 120


class StoredOperators:
    """Adds operators to a builder and keeps track of memory: a write through a view reaches every later reader."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self._writes: dict[int, list[int]] = {}

    def add(
        self,
        scope: Sequence[Scope],
        facts: KernelFacts,
        name: str,
        inputs: Sequence[int],
        written: Sequence[int],
        outputs: Sequence[Tensor],
        arguments: Sequence[Any],
        *,
        attributes: Sequence[tuple[str, str]] = (),
        source: str = "",
    ) -> list[int]:
        """One operator; returns the rows of its outputs.

        Args:
            scope: Module calls around it.
            facts: What its schema says.
            name: How to show it.
            inputs: Values it reads.
            written: Those of them that it writes in place.
            outputs: What it returns.
            arguments: All positional arguments, tensors as ``{"t": k}``.
            attributes: Arguments that are not tensors, as text.
            source: Where it was written.
        """
        builder = self.builder
        also = [row for read in inputs for row in self._writes.get(builder.storage(read), ()) if row > read]
        results = list(outputs)
        if written:
            for tensor, before in zip(results, written, strict=False):
                tensor.storage = builder.storage(before)
        elif inputs and self._returns_view(facts, inputs, results):
            for tensor in results:
                tensor.storage = builder.storage(inputs[0])
        rows = builder.operator(
            scope,
            name,
            inputs,
            results,
            kernel=facts.name,
            also_reads=also,
            attributes=attributes,
            source=source,
            macs=_macs(facts.packet, [builder.shape(row) for row in inputs], [t.shape for t in outputs], arguments),
        )
        for row, _ in zip(rows, written, strict=False):
            self._writes.setdefault(builder.storage(row), []).append(row)
        return rows

    def _returns_view(self, facts: KernelFacts, inputs: Sequence[int], results: Sequence[Tensor]) -> bool:
        if facts.memory == VIEW:
            return True
        if facts.memory != UNSURE or facts.packet.rpartition("::")[2] not in _PERHAPS_VIEWS:
            return False
        return len(results) != 1 or self.builder.dtype(inputs[0]) == results[0].dtype


def add_parameters(builder: GraphBuilder, tensors: Sequence[tuple[str, TorchTensor, bool]]) -> None:
    """Add parameters and buffers, given as (path, tensor, is a buffer). A tensor under several paths is added once."""
    first: dict[tuple[Any, ...], int] = {}
    paths: list[list[str]] = []
    kept: list[tuple[TorchTensor, bool]] = []
    for path, tensor, is_buffer in tensors:
        key = _memory_of(tensor)
        row = first.setdefault(key, len(paths))
        if row == len(paths):
            paths.append([path])
            kept.append((tensor, is_buffer))
        else:
            paths[row].append(path)
    for (path, *aliases), (tensor, is_buffer) in zip(paths, kept, strict=True):
        builder.parameter(
            Parameter(
                path,
                shape_of(tensor),
                dtype_name(tensor.dtype),
                str(tensor.device),
                is_buffer,
                tensor.requires_grad and not is_buffer,
                sketch(tensor),
                aliases,
            )
        )


def _memory_of(tensor: TorchTensor) -> tuple[Any, ...]:
    try:
        address = tensor.data_ptr() if tensor.numel() and not tensor.is_meta else 0
    except (RuntimeError, NotImplementedError):
        address = 0
    return (address, tuple(tensor.shape), tensor.dtype) if address else (0, id(tensor))


def attribute_text(value: Any) -> str | None:
    """An argument as text, None when it says nothing (None, tensors)."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        items = [str(item) for item in value if item is not None]
        return f"[{', '.join(items)}]"[:MAXIMUM_ATTRIBUTE_TEXT] if items else None
    return str(value).removeprefix("torch.")[:MAXIMUM_ATTRIBUTE_TEXT]


def _macs(
    packet: str,
    inputs: Sequence[Sequence[int] | None],
    outputs: Sequence[Sequence[int] | None],
    arguments: Sequence[Any],
) -> float:
    """Multiply-accumulates; NaN when unknown, also where a size is."""
    known_inputs = [shape for shape in inputs if shape is not None and min(shape, default=0) >= 0]
    known_outputs = [shape for shape in outputs if shape is not None and min(shape, default=0) >= 0]
    if len(known_inputs) < len(inputs) or len(known_outputs) < len(outputs):
        return math.nan if has_formula(packet) or may_multiply(packet) else 0.0
    return macs_of(packet, known_inputs, known_outputs, arguments)
