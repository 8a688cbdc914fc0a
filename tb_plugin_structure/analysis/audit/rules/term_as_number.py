"""A term of the loss became a Python number before it was added."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss

_DIGITS = 7
"""A number with as many digits was computed: nobody writes such a weight."""


@rule(
    "term-as-number",
    severity="error",
    explanation="A number has no gradient: the term changes the value that is shown, and nothing is learnt from it.",
    fix="Add the tensor itself; call item() only for what is printed or logged.",
)
def term_as_number(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None:
        return
    lost = list(_made_numbers(loss))
    for kernel, name in enumerate(loss.kernels):
        number = kernel_arguments(loss.outside, kernel).get(1, "other")
        before = [reading for reading in lost if reading < kernel]
        if name in ("add", "sub", "rsub") and isinstance(number, float) and _is_computed(number) and before:
            yield Finding(
                f"{loss.where(kernel)} adds {number:.4g}, a number and no tensor, after {loss.where(before[-1])}",
                subject="outside",
            )


def _made_numbers(loss: RecordedLoss) -> Iterator[int]:
    """Kernels that read a number out of a value that compares the models, could be learnt from, and is read by nothing
    else."""
    readers: dict[int, int] = {}
    for kernel in range(len(loss.kernels)):
        for tensor in loss.inputs(kernel):
            readers[tensor] = readers.get(tensor, 0) + 1
    for kernel, name in enumerate(loss.kernels):
        if name != "_local_scalar_dense":
            continue
        tensor = loss.inputs(kernel)[0]
        compares = {"teacher", "student"} <= loss.origin.get(tensor, frozenset())
        if compares and loss.outside.tensors["requires_grad"][tensor] and readers[tensor] == 1:
            yield kernel


def _is_computed(number: float) -> bool:
    return len(repr(number).partition("e")[0].replace(".", "").lstrip("-0")) > _DIGITS
