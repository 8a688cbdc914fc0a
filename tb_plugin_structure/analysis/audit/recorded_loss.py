"""What ran between the models in a recorded step, with the models that each value comes from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod

import numpy as np

from tb_plugin_structure.analysis.audit.findings import Context
from tb_plugin_structure.analysis.audit.naming import base_name
from tb_plugin_structure.analysis.audit.wording import operator_text
from tb_plugin_structure.analysis.external_values import made_by_models, model_row
from tb_plugin_structure.records.structure import Structure

EXTERNAL = 5
"""Value of ``tensors.origin`` for what another model of the step made."""
_ELEMENTWISE = frozenset(
    {
        "add", "sub", "rsub", "mul", "div", "pow", "maximum", "minimum", "mse_loss", "smooth_l1_loss", "huber_loss",
        "l1_loss", "xlogy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "where", "fmod", "atan2",
        "squared_difference", "kl_div", "dist",
    }
)  # fmt: skip


class RecordedLoss:
    """The outside record with, for each value, the models it comes from."""

    def __init__(self, outside: Structure, teacher: Structure, student: Structure) -> None:
        self.outside = outside
        self.models = {"teacher": teacher, "student": student}
        names = outside.kernels.column_texts("name")
        self.kernels = [base_name(name) for name in names]
        self.origin: dict[int, frozenset[str]] = {
            tensor: frozenset({role}) for tensor, role in made_by_models(outside, self.models).items()
        }
        for kernel in range(outside.kernels.rows):
            roles = frozenset().union(*(self.origin.get(t, frozenset()) for t in self.inputs(kernel)))
            for tensor in outside.kernels.values("outputs", kernel).tolist():
                self.origin.setdefault(tensor, roles)
        self.losses = outside.module_calls.values("outputs", 0).tolist() if outside.module_calls.rows else []
        """Values that a backward pass started from; none where it ran after the region, or the record is an old one."""

    @cached_property
    def part_of_loss(self) -> frozenset[int]:
        """Values that one of the losses was computed from, and these themselves."""
        found = set(self.losses)
        for kernel in range(self.outside.kernels.rows - 1, -1, -1):
            if not found.isdisjoint(self.outside.kernels.values("outputs", kernel).tolist()):
                found.update(self.inputs(kernel))
        return frozenset(found)

    def inputs(self, kernel: int) -> list[int]:
        return [int(t) for t in self.outside.kernels.values("inputs", kernel)]

    def where(self, kernel: int) -> str:
        operator = int(self.outside.kernels["operator"][kernel])
        name, source = self.outside.operators.text("name", operator), self.outside.operators.text("source", operator)
        return operator_text(name) + (f" ({source})" if source else "")

    def broadcasts(self) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
        """(kernel, first, second operand, result shape) where two operands of different shape meet."""
        expanded: dict[int, list[int]] = {}  # operator -> its expand kernels: broadcast_tensors in front of a loss
        given: dict[int, int] = {}  # what it made of the one operand that grows -> that operand
        for kernel, name in enumerate(self.kernels):
            operator = int(self.outside.kernels["operator"][kernel])
            outputs = self.outside.kernels.values("outputs", kernel).tolist()
            if not outputs:
                continue
            result = self.outside.shape(outputs[0])
            if name == "expand" and self.outside.operators.text("name", operator) == "broadcast_tensors":
                expanded.setdefault(operator, []).append(kernel)
                given[outputs[0]] = self.inputs(kernel)[0]
                if len(expanded[operator]) == 2:
                    first, second = (self.inputs(k)[0] for k in expanded[operator])
                    for k in expanded[operator]:
                        given.pop(int(self.outside.kernels.values("outputs", k)[0]), None)
                    if self.outside.shape(first) != self.outside.shape(second):
                        yield kernel, first, second, result
            elif name in _ELEMENTWISE:
                operands = [given.get(t, t) for t in self.inputs(kernel)]
                operands = [t for t in operands if prod(self.outside.shape(t)) > 1]
                if len(operands) == 2 and self.outside.shape(operands[0]) != self.outside.shape(operands[1]):
                    yield kernel, operands[0], operands[1], result

    def sources(self, tensor: int) -> frozenset[int]:
        """The values that no operator between the models made and that a value was computed from."""
        found: set[int] = set()
        seen, ahead = {tensor}, [tensor]
        while ahead:
            kernel = int(self.outside.tensors["producer"][row := ahead.pop()])
            reads = self.inputs(kernel) if kernel >= 0 else []
            if not reads:
                found.add(row)
            ahead.extend(read for read in reads if read not in seen)
            seen.update(reads)
        return frozenset(found)

    def uses_another_model(self) -> bool:
        """Whether it reads what a third recorded model made, such as a loss that is a module of its own."""
        names = {model.name for model in self.models.values()}
        tensors = self.outside.tensors
        external = np.flatnonzero(tensors["origin"] == EXTERNAL).tolist()
        return any((name := tensors.text("name", row)) and name.partition("/")[0] not in names for row in external)

    def grows_both(self, first: int, second: int, result: tuple[int, ...]) -> bool:
        """Whether both operands of a broadcast are smaller than its result."""
        return all(prod(self.outside.shape(tensor)) < prod(result) for tensor in (first, second))

    def is_elementwise(self, kernel: int) -> bool:
        """Whether a kernel takes its two operands value by value."""
        return self.kernels[kernel] in _ELEMENTWISE

    def meetings(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """(kernel, (value of the teacher alone, value of the student alone)) where a kernel reads both."""
        for kernel in range(self.outside.kernels.rows):
            of_one = {next(iter(roles)): t for t in self.inputs(kernel) if len(roles := self.origin.get(t, ())) == 1}
            if set(of_one) == {"teacher", "student"}:
                yield kernel, (of_one["teacher"], of_one["student"])

    def model_tensor(self, tensor: int, model: Structure) -> int:
        """Row of a feature in its model's own record; -1 where that is not known."""
        return model_row(self.outside, tensor, model)

    def feature_of(self, tensor: int) -> tuple[str, str]:
        """(role, module path) of the feature that a value is, seen through kernels that neither change its shape nor
        read another value of it; ("", "") where it is none."""
        producers, shape = self.outside.tensors["producer"], self.outside.shape(tensor)
        while (kernel := int(producers[tensor])) >= 0:
            alike = [t for t in self.inputs(kernel) if self.outside.shape(t) == shape]
            if len(alike) != 1:
                return "", ""
            tensor = alike[0]
        roles = self.origin.get(tensor, frozenset())
        if len(roles) != 1:
            return "", ""
        return next(iter(roles)), self.outside.tensors.text("name", tensor).partition("/")[2]


def recorded_loss(context: Context) -> RecordedLoss | None:
    """What ran between the models of the step; None when no step was recorded."""
    if context.outside is None:
        return None
    return RecordedLoss(context.outside, context.teacher.structure, context.student.structure)
