"""What goes wrong between the models: in the loss of a recorded step."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.naming import base_name
from tb_plugin_structure.records.structure import Structure

_EXTERNAL = 5
_ELEMENTWISE = frozenset(
    {
        "add", "sub", "rsub", "mul", "div", "pow", "maximum", "minimum", "mse_loss", "smooth_l1_loss", "huber_loss",
        "l1_loss", "xlogy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "where", "fmod", "atan2",
        "squared_difference", "kl_div", "dist",
    }
)  # fmt: skip


class _Loss:
    """The outside record with, for each value, the models it comes from."""

    def __init__(self, outside: Structure, teacher: str, student: str) -> None:
        self.outside = outside
        names = outside.kernels.column_texts("name")
        self.kernels = [base_name(name) for name in names]
        self.origin: dict[int, frozenset[str]] = {}
        for tensor in np.flatnonzero(outside.tensors["origin"] == _EXTERNAL).tolist():
            model = outside.tensors.text("name", tensor).partition("/")[0]
            role = {teacher: "teacher", student: "student"}.get(model)
            if role is not None:
                self.origin[tensor] = frozenset({role})
        for kernel in range(outside.kernels.rows):
            roles = frozenset().union(*(self.origin.get(t, frozenset()) for t in self.inputs(kernel)))
            for tensor in outside.kernels.values("outputs", kernel).tolist():
                self.origin.setdefault(tensor, roles)

    def inputs(self, kernel: int) -> list[int]:
        return [int(t) for t in self.outside.kernels.values("inputs", kernel)]

    def where(self, kernel: int) -> str:
        operator = int(self.outside.kernels["operator"][kernel])
        name, source = self.outside.operators.text("name", operator), self.outside.operators.text("source", operator)
        return f"{name}" + (f" ({source})" if source else "")

    def broadcasts(self) -> Iterator[tuple[int, int, int, tuple[int, ...]]]:
        """(kernel, first, second operand, result shape) where two operands of different shape meet."""
        expanded: dict[int, list[int]] = {}  # operator -> its expand kernels: broadcast_tensors in front of a loss
        for kernel, name in enumerate(self.kernels):
            operator = int(self.outside.kernels["operator"][kernel])
            outputs = self.outside.kernels.values("outputs", kernel)
            if not len(outputs):
                continue
            result = self.outside.shape(int(outputs[0]))
            if name == "expand" and self.outside.operators.text("name", operator) == "broadcast_tensors":
                expanded.setdefault(operator, []).append(kernel)
                if len(expanded[operator]) == 2:
                    first, second = (self.inputs(k)[0] for k in expanded[operator])
                    if self.outside.shape(first) != self.outside.shape(second):
                        yield kernel, first, second, result
            elif name in _ELEMENTWISE:
                operands = [t for t in self.inputs(kernel) if prod(self.outside.shape(t)) > 1]
                if len(operands) == 2 and self.outside.shape(operands[0]) != self.outside.shape(operands[1]):
                    yield kernel, operands[0], operands[1], result


def _loss(context: Context) -> _Loss | None:
    if context.outside is None:
        return None
    return _Loss(context.outside, context.teacher.structure.name, context.student.structure.name)


@rule(
    "silent-broadcast",
    severity="error",
    explanation=(
        "Both operands grow to meet each other, so every example is compared with every other one; the loss runs and "
        "means nothing."
    ),
    fix="Give both the same shape: squeeze(-1) or unsqueeze(-1) one of them.",
)
def silent_broadcast(context: Context) -> Iterator[Finding]:
    loss = _loss(context)
    if loss is None:
        return
    for kernel, first, second, result in loss.broadcasts():
        shapes = [loss.outside.shape(tensor) for tensor in (first, second)]
        if all(prod(shape) < prod(result) for shape in shapes):
            yield Finding(
                f"{loss.where(kernel)}: {list(shapes[0])} and {list(shapes[1])} broadcast to {list(result)}",
                subject="outside",
            )


@rule(
    "loss-shape-mismatch",
    severity="error",
    explanation="A value of the student is compared with one of the teacher that has another shape.",
    fix="Adapt the student's feature (report.adapters()), or check which element or dimension was meant.",
)
def loss_shape_mismatch(context: Context) -> Iterator[Finding]:
    loss = _loss(context)
    if loss is None:
        return
    for kernel, first, second, _ in loss.broadcasts():
        roles = [loss.origin.get(tensor, frozenset()) for tensor in (first, second)]
        if {"teacher"} in roles and any("student" in side and "teacher" not in side for side in roles):
            shapes = [loss.outside.shape(tensor) for tensor in (first, second)]
            yield Finding(
                f"{loss.where(kernel)} compares {list(shapes[0])} ({'/'.join(sorted(roles[0]))}) with "
                f"{list(shapes[1])} ({'/'.join(sorted(roles[1]))})",
                subject="outside",
            )


@rule(
    "teacher-output-with-grad",
    severity="warning",
    explanation="The loss used a teacher's output that carries a gradient: the backward pass runs through the teacher.",
    fix="Run the teacher under torch.no_grad(), or detach() its outputs.",
)
def teacher_output_with_grad(context: Context) -> Iterator[Finding]:
    loss = _loss(context)
    if loss is None:
        return
    outside = loss.outside
    used = set(outside.kernels["inputs"].tolist())
    for tensor, roles in loss.origin.items():
        is_external = outside.tensors["origin"][tensor] == _EXTERNAL
        if is_external and tensor in used and roles == {"teacher"} and outside.tensors["requires_grad"][tensor]:
            path = outside.tensors.text("name", tensor).partition("/")[2]
            yield context.teacher.found(f"the loss uses {path or 'the output'} of the teacher with its gradient", path)
