"""The terms of a recorded loss: what compares the two models, and with which sign and weight it enters the sum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.loss_chain import Made, made_by
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss
from tb_plugin_structure.analysis.audit.side import Side

DISTANCES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"})
"""Operators that are the smaller the more alike their two arguments are, and 0 where they are equal."""

_BOTH = {"teacher", "student"}
_INSIDE = ("kl_div", "cross_entropy", "cross_entropy_loss")
"""Operators that take such a product themselves, with the right sign."""

_SAME = frozenset(
    {"mean", "sum", "view", "reshape", "squeeze", "unsqueeze", "_to_copy", "clone", "alias", "stack", "cat"}
)


@dataclass(frozen=True)
class Term:
    """A distance of a value of the teacher and one of the student.

    Attributes:
        kernel: The first kernel of the operator.
        operator: Its row in ``operators``.
        name: Its name: ``mse_loss``.
        result: The value that it gave.
    """

    kernel: int
    operator: int
    name: str
    result: int


@dataclass(frozen=True)
class Weight:
    """How a value enters the loss.

    Attributes:
        factor: The product of the numbers that it is multiplied with, signs of subtractions included.
        is_lowered: Whether one of these numbers makes it smaller, such as the size of the batch.
        is_complete: Whether nothing else weighs it: no other tensor is multiplied with it or divides it.
        terms: With how many other values it is summed up.
        end: The last value that it enters alone or in a sum.
    """

    factor: float
    is_lowered: bool
    is_complete: bool
    terms: int
    end: int


def distances(loss: RecordedLoss) -> Iterator[Term]:
    """Every distance between the models that the step computed."""
    kernels = loss.outside.kernels
    groups: dict[int, list[int]] = {}
    for kernel, operator in enumerate(kernels["operator"].tolist()):
        if loss.outside.operators.text("name", operator) in DISTANCES:
            groups.setdefault(operator, []).append(kernel)
    for operator, group in groups.items():
        results = kernels.values("outputs", group[-1]).tolist()
        if results and loss.origin.get(results[0], frozenset()) >= {"teacher", "student"}:
            yield Term(group[0], operator, loss.outside.operators.text("name", operator), int(results[0]))


def similarities(loss: RecordedLoss) -> Iterator[Term]:
    """Every cosine similarity between the models that the step computed."""
    kernels = loss.outside.kernels
    last = {operator: kernel for kernel, operator in enumerate(kernels["operator"].tolist())}
    for operator, kernel in last.items():
        results = kernels.values("outputs", kernel).tolist()
        name = loss.outside.operators.text("name", operator)
        if name == "cosine_similarity" and results and loss.origin.get(results[0], frozenset()) >= _BOTH:
            yield Term(kernel, operator, name, int(results[0]))


def cross_entropies(loss: RecordedLoss, sides: Mapping[str, Side]) -> Iterator[Term]:
    """Every product of the teacher's probabilities and logarithms of the student's: cross entropy without its sign."""
    for kernel, name in enumerate(loss.kernels):
        operator, inputs = int(loss.outside.kernels["operator"][kernel]), loss.inputs(kernel)
        if name != "mul" or len(inputs) != 2 or loss.outside.operators.text("name", operator) in _INSIDE:
            continue
        by_role = {next(iter(roles)): t for t in inputs if len(roles := loss.origin.get(t, frozenset())) == 1}
        if by_role.keys() == _BOTH:
            made = {role: made_by(loss, sides, tensor) for role, tensor in by_role.items()}
            if _kernel(made["teacher"]) == "_softmax" and _kernel(made["student"]) in ("_log_softmax", "log"):
                result = int(loss.outside.kernels.values("outputs", kernel)[0])
                yield Term(kernel, operator, "cross entropy", result)


def _kernel(made: Made | None) -> str:
    return made.kernel if made is not None else ""


def weight_of(loss: RecordedLoss, tensor: int) -> Weight:
    """How a value enters what the step computed last from it."""
    factor, is_lowered, is_complete, terms = 1.0, False, True, 0
    kernel = int(loss.outside.tensors["producer"][tensor])
    while (following := _reader(loss, tensor, kernel)) is not None:
        kernel, position = following
        name, inputs = loss.kernels[kernel], loss.inputs(kernel)
        number = kernel_arguments(loss.outside, kernel).get(1, "other")
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if name == "neg" or (name == "sub" and position == 1) or (name == "rsub" and position == 0):
            factor = -factor
        elif name in ("mul", "div") and is_number and number:
            factor = factor * number if name == "mul" else factor / number
            is_lowered = is_lowered or (abs(number) < 1 if name == "mul" else abs(number) > 1)
        elif name in ("mul", "div"):
            is_complete = False
        elif name not in ("add", "sub", *_SAME):
            return Weight(factor, is_lowered, False, terms, tensor)
        if name in ("add", "sub", "rsub", "stack", "cat"):
            terms += len(inputs) - 1
        outputs = loss.outside.kernels.values("outputs", kernel).tolist()
        if not outputs:
            break
        tensor = int(outputs[0])
    return Weight(factor, is_lowered, is_complete, terms, tensor)


def _reader(loss: RecordedLoss, tensor: int, after: int) -> tuple[int, int] | None:
    """(kernel, position of the value in it) of the last kernel that reads a value and gives one that can be learnt
    from; None when there is none. The last, since a running total is read for the log before it is added up."""
    for kernel in range(len(loss.kernels) - 1, after, -1):
        inputs = loss.inputs(kernel)
        if tensor in inputs and any(
            loss.outside.tensors["requires_grad"][made] for made in loss.outside.kernels.values("outputs", kernel)
        ):
            return kernel, inputs.index(tensor)
    return None
