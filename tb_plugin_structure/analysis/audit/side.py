"""One model of a comparison: its structure with the meaning of dimensions, stages and costs at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.feature import Dimension, Feature
from tb_plugin_structure.analysis.audit.findings import Finding
from tb_plugin_structure.analysis.audit.naming import Names, shared_texts
from tb_plugin_structure.analysis.audit.stages import Stages
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array, Table, numbers_of

ACTIVATIONS = {
    "relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "hardswish": "Hardswish", "leaky_relu": "LeakyReLU",
    "sigmoid": "Sigmoid", "tanh": "Tanh", "elu": "ELU", "mish": "Mish", "hardtanh": "Hardtanh", "softplus": "Softplus",
    "hardsigmoid": "Hardsigmoid", "_softmax": "Softmax", "_log_softmax": "LogSoftmax",
}  # fmt: skip
"""Kernel base name -> activation, for "before or after the activation"."""

_ELEMENTS = ("", "logits", "last_hidden_state", "0", "hidden_states", "out", "output")
"""Elements of an output in the order in which they are preferred."""

_INPUT, _EXTERNAL = 1, 5


class Side:
    """`role` is "teacher" or "student"."""

    def __init__(self, structure: Structure, role: str) -> None:
        self.structure = structure
        self.role = role
        self.names = Names(structure)
        self.stages = Stages(structure)
        calls, tensors = structure.module_calls, structure.tensors
        self._modules = calls.numbers("module")
        self._modified = calls.numbers("modified_after_return")
        self._training = structure.modules.numbers("training")
        self._raised = calls.numbers("raised")
        self._outputs = calls.lists("outputs")
        self._elements = shared_texts(calls, "output_names")
        self._is_buffer = structure.parameters.numbers("is_buffer")
        self._requires_grad = tensors.numbers("requires_grad")
        self._producers = tensors.numbers("producer")
        self._dtypes, self._devices = tensors.column_texts("dtype"), tensors.column_texts("device")
        self.costs: dict[tuple[float, ...], Any] = {}
        """Costs of calls, each once: blocks repeat them."""
        self._flags: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._macs = _Sums(structure.operators["macs"])
        self._activation_bytes = _Sums(structure.operators["activation_bytes"])
        self._saved_bytes = _Sums(_optional(structure.operators, "saved_bytes"))
        self._durations = calls.numbers("duration_ns")
        self._peaks = numbers_of(_optional(calls, "peak_bytes"))
        self._begins, self._ends = calls.numbers("operator_begin"), calls.numbers("operator_end")

    def elements(self, call: int) -> list[str]:
        """Names of the tensors that a call returned; [""] for a single tensor."""
        return self._elements[call]

    def feature(self, call: int, element: str | None = None) -> Feature:
        """The tensor of a call that is compared: the named element, or the main one."""
        structure = self.structure
        module = self._modules[call]
        ordinal, calls = self._ordinals[call], len(structure.calls_of_module[module])
        path, class_name = structure.module_paths[module], structure.module_classes[module]
        flags = self.flags(call)
        names = self.elements(call)
        if not names:
            return Feature(path, class_name, call, ordinal, calls, flags=flags)
        chosen = main_element(names) if element is None else element
        tensor = self._outputs[call][names.index(chosen)]
        return Feature(
            path,
            class_name,
            call,
            ordinal,
            calls,
            element=chosen,
            flags=flags,
            dimensions=self.meaning(tensor),
            dtype=self._dtypes[tensor],
            device=self._devices[tensor],
            after_activation=self._activation(tensor),
            tensor=tensor,
            is_constant=not self.varies[tensor],
            symbols=structure.symbolic_shape(tensor) or (),
        )

    def meaning(self, tensor: int) -> tuple[Dimension, ...]:
        """What the dimensions of a tensor mean, as a feature names them."""
        return _as_features(self.names.of(tensor))

    def _activation(self, tensor: int) -> str:
        kernel = self._producers[tensor]
        return "" if kernel < 0 else ACTIVATIONS.get(self.names.kernel_names[kernel], "")

    def flags(self, call: int) -> tuple[str, ...]:
        """Short facts about a call for people: "training", "frozen", "modified after return", ..."""
        module = self._modules[call]
        flags = ["training"] if self._training[module] else []
        if self._is_frozen[module]:
            flags.append("frozen")
        if self._modified[call]:
            flags.append("modified after return")
        if self._raised[call]:
            flags.append("raised")
        if any(self._requires_grad[tensor] for tensor in self._outputs[call]):
            flags.append("carries gradient")
        found = tuple(flags)
        return self._flags.setdefault(found, found)  # thousands of calls share a few

    def own_parameters(self, module: int) -> list[int]:
        """Parameters at or below a module, buffers left out."""
        return [row for row in self.structure.module_parameters(module) if not self._is_buffer[row]]

    @cached_property
    def _is_frozen(self) -> list[bool]:
        """Whether a module has parameters at or below it, and none of them is trained."""
        trains = self.structure.parameters["requires_grad"].tolist()
        has, trained = [False] * self.structure.modules.rows, [False] * self.structure.modules.rows
        parents = self.structure.modules["parent"].tolist()
        for module, rows in reversed(list(enumerate(self.structure.modules.column_lists("parameters")))):
            for row in rows:
                if not self._is_buffer[row]:
                    has[module] = True
                    trained[module] = trained[module] or bool(trains[row])
            above = parents[module]
            if above >= 0:
                has[above], trained[above] = has[above] or has[module], trained[above] or trained[module]
        return [some and not any_trained for some, any_trained in zip(has, trained, strict=True)]

    @cached_property
    def _ordinals(self) -> list[int]:
        """For each call, which call of its module it is, from 0."""
        ordinals = [0] * len(self._modules)
        for same in self.structure.calls_of_module.values():
            for ordinal, call in enumerate(same):
                ordinals[call] = ordinal
        return ordinals

    def parameter_count(self, module: int) -> int:
        """As ``Structure.parameter_count``."""
        return self.structure.parameter_count(module)

    def call_macs(self, call: int) -> float:
        """As ``Structure.call_macs``."""
        return self._macs.between(self._begins[call], self._ends[call])

    def call_activation_bytes(self, call: int) -> float:
        """As ``Structure.call_activation_bytes``."""
        return self._activation_bytes.between(self._begins[call], self._ends[call])

    def module_of(self, call: int) -> int:
        """Row of the module that a call calls."""
        return self._modules[call]

    def call_saved_bytes(self, call: int) -> float:
        """What autograd keeps of a call for the backward pass; NaN when the record did not measure it."""
        if not self._saved_bytes.any_known:
            return float("nan")
        return self._saved_bytes.between(self._begins[call], self._ends[call])

    def duration_ns(self, call: int) -> float:
        """Median time of a call; NaN when the record did not measure it."""
        return self._durations[call]

    def peak_bytes(self, call: int) -> float:
        """Most bytes of new storage alive at once within a call; NaN when the record did not measure it."""
        return self._peaks[call]

    @cached_property
    def call_ends(self) -> list[int]:
        """For each call, one past the last call made within it (calls are stored in the order in which they began)."""
        parents = self.structure.module_calls["parent"].tolist()
        ends = list(range(1, len(parents) + 1))
        for call in range(len(parents) - 1, 0, -1):
            if parents[call] >= 0:
                ends[parents[call]] = max(ends[parents[call]], ends[call])
        return ends

    @cached_property
    def varies(self) -> bytearray:
        """1 for each tensor that something of the model's input reaches."""
        tensors = self.structure.tensors
        # What has no known way to the input counts as varying, unless it is a parameter, a buffer or a constant.
        varies = bytearray((tensors["origin"] == _INPUT) | (tensors["origin"] == _EXTERNAL))
        reads = self.names.also_reads
        for kernel, outputs in enumerate(self.names.outputs):
            if any(varies[t] for t in self.names.inputs[kernel]) or any(varies[t] for t in reads[kernel]):
                for tensor in outputs:
                    varies[tensor] = 1
        return varies

    @cached_property
    def linear_has_bias(self) -> bool:
        """Whether this model's own Linear modules have a bias (most of them); True when it has none."""
        rows = [row for row, name in enumerate(self.structure.module_classes) if name in ("Linear", "Conv1D")]
        paths = set(self.structure.parameters.column_texts("path"))
        with_bias = sum(f"{self.structure.module_paths[row]}.bias" in paths for row in rows)
        return not rows or 2 * with_bias >= len(rows)

    @cached_property
    def reads_token_ids(self) -> bool:
        """Whether an input of the model is looked up in an embedding."""
        structure = self.structure
        embeddings = [kernel for kernel, name in enumerate(self.names.kernel_names) if name == "embedding"]
        origins = structure.tensors["origin"]
        return any(
            origins[tensor] == _INPUT for kernel in embeddings for tensor in structure.kernels.values("inputs", kernel)
        )

    def found(self, message: str, path: str = "", **fields: Any) -> Finding:
        """A finding about this side; `fields` as in :class:`Finding`."""
        return Finding(message, subject=self.role, module_path=path, **fields)

    @cached_property
    def read_parameters(self) -> set[int]:
        """Rows of the parameters and buffers that a kernel read."""
        tensors = np.unique(self.structure.kernels["inputs"])
        parameters = self.structure.tensors["parameter"][tensors.astype(np.int64)]
        return set(parameters[parameters >= 0].tolist())

    @cached_property
    def path_of_kernel(self) -> Callable[[int], str]:
        """Kernel -> path of the module in which it ran."""
        structure = self.structure
        operators, calls = structure.kernels["operator"], structure.operators["call"]
        return lambda kernel: structure.call_path(int(calls[operators[kernel]]))

    def source_of_kernel(self, kernel: int) -> str:
        """' (file:line)' of a kernel for messages; "" when the record keeps none."""
        source = self.structure.operators.text("source", int(self.structure.kernels["operator"][kernel]))
        return f" ({source})" if source else ""

    def total(self, name: str) -> float:
        """A sum of the record's header: "parameters", "trainable_parameters", "macs", ..."""
        return float(getattr(self.structure.header.totals, name))


def _optional(table: Table, column: str) -> Array:
    """A column of numbers; all NaN when the record has none."""
    return table[column] if column in table else np.full(table.rows, np.nan)


class _Sums:
    """Sums over ranges of a column; NaN where no value of a range is known, 0 for an empty range."""

    def __init__(self, values: Array) -> None:
        unknown = np.isnan(values)
        self._sums = numbers_of(np.concatenate(([0.0], np.cumsum(np.where(unknown, 0.0, values)))))
        self._known = numbers_of(np.concatenate(([0], np.cumsum(~unknown))))
        self.any_known = self._known[-1] > 0

    def between(self, begin: int, end: int) -> float:
        if begin < end and self._known[end] == self._known[begin]:
            return float("nan")
        return float(self._sums[end] - self._sums[begin])


def _as_features(dimensions: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """Channels that were flattened into tokens are what the next layer calls hidden; hidden of a map are channels."""
    names = {dimension.name for dimension in dimensions}
    if dim.HIDDEN not in names and dim.TOKENS not in names:
        return dimensions
    if names == {dim.BATCH, dim.TOKENS, dim.CHANNELS}:
        return tuple(replace(d, name=dim.HIDDEN) if d.name == dim.CHANNELS else d for d in dimensions)
    if dim.HIDDEN in names and dim.CHANNELS not in names and {dim.HEIGHT, dim.WIDTH} <= names:
        return tuple(replace(d, name=dim.CHANNELS) if d.name == dim.HIDDEN else d for d in dimensions)
    return dimensions


def main_element(names: list[str]) -> str:
    """The element that stands for an output of several tensors."""
    return next((name for name in _ELEMENTS if name in names), names[0])


def common_elements(teacher: list[str], student: list[str]) -> tuple[str, str]:
    """The elements to compare: one that both have, the preferred one first; else each side's main one."""
    common = [name for name in (*_ELEMENTS, *student) if name in teacher and name in student]
    if common:
        return common[0], common[0]
    return main_element(teacher), main_element(student)
