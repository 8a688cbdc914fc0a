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
from tb_plugin_structure.analysis.audit.naming import Names
from tb_plugin_structure.analysis.audit.stages import Stages
from tb_plugin_structure.records.structure import Structure

ACTIVATIONS = {
    "relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "hardswish": "Hardswish", "leaky_relu": "LeakyReLU",
    "sigmoid": "Sigmoid", "tanh": "Tanh", "elu": "ELU", "mish": "Mish", "hardtanh": "Hardtanh", "softplus": "Softplus",
    "hardsigmoid": "Hardsigmoid", "_softmax": "Softmax", "_log_softmax": "LogSoftmax",
}  # fmt: skip
"""Kernel base name -> activation, for "before or after the activation"."""

_ELEMENTS = ("", "logits", "last_hidden_state", "0", "hidden_states", "out", "output")
"""Elements of an output in the order in which they are preferred."""

_INPUT = 1


class Side:
    """`role` is "teacher" or "student"."""

    def __init__(self, structure: Structure, role: str) -> None:
        self.structure = structure
        self.role = role
        self.names = Names(structure)
        self.stages = Stages(structure)

    def elements(self, call: int) -> list[str]:
        """Names of the tensors that a call returned; [""] for a single tensor."""
        return self.structure.module_calls.texts("output_names", call)

    def feature(self, call: int, element: str | None = None) -> Feature:
        """The tensor of a call that is compared: the named element, or the main one."""
        structure = self.structure
        calls = structure.module_calls
        module = int(calls["module"][call])
        same = structure.calls_of_module[module]
        bare = Feature(
            path=structure.module_paths[module],
            class_name=structure.module_classes[module],
            call=call,
            ordinal=same.index(call),
            calls=len(same),
            flags=self.flags(call),
        )
        names = self.elements(call)
        if not names:
            return bare
        chosen = main_element(names) if element is None else element
        tensor = int(calls.values("outputs", call)[names.index(chosen)])
        return replace(
            bare,
            element=chosen,
            dimensions=_as_features(self.names.of(tensor)),
            dtype=structure.tensors.text("dtype", tensor),
            device=structure.tensors.text("device", tensor),
            after_activation=self._activation(tensor),
            tensor=tensor,
        )

    def _activation(self, tensor: int) -> str:
        kernel = int(self.structure.tensors["producer"][tensor])
        return "" if kernel < 0 else ACTIVATIONS.get(self.names.kernel_names[kernel], "")

    def flags(self, call: int) -> tuple[str, ...]:
        """Short facts about a call for people: "training", "frozen", "modified after return", ..."""
        structure = self.structure
        module = int(structure.module_calls["module"][call])
        flags = []
        if structure.modules["training"][module]:
            flags.append("training")
        trained = [bool(structure.parameters["requires_grad"][row]) for row in self.own_parameters(module)]
        if trained and not any(trained):
            flags.append("frozen")
        if structure.module_calls["modified_after_return"][call]:
            flags.append("modified after return")
        if structure.module_calls["raised"][call]:
            flags.append("raised")
        outputs = structure.module_calls.values("outputs", call)
        if any(structure.tensors["requires_grad"][tensor] for tensor in outputs.tolist()):
            flags.append("carries gradient")
        return tuple(flags)

    def own_parameters(self, module: int) -> list[int]:
        """Parameters at or below a module, buffers left out."""
        is_buffer = self.structure.parameters["is_buffer"]
        return [row for row in self.structure.module_parameters(module) if not is_buffer[row]]

    @cached_property
    def _counts(self) -> dict[int, int]:
        return {}

    def parameter_count(self, module: int) -> int:
        count = self._counts.get(module)
        if count is None:
            count = self._counts[module] = self.structure.parameter_count(module)
        return count

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


def _as_features(dimensions: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """Channels that were flattened into tokens are what the next layer calls hidden; hidden of a map are channels."""
    names = {dimension.name for dimension in dimensions}
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
