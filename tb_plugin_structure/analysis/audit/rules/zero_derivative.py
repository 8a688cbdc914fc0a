"""A gradient arrives and is zero, because every way to the loss leads through a step function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.audit.wording import counted

_STEPS = frozenset({"round", "sign", "sgn", "floor", "ceil", "trunc", "fix", "heaviside", "bernoulli"})
"""Kernels that autograd follows, with a derivative of zero."""

Kernel = tuple[Sequence[int], Sequence[int], str]
"""(values with a gradient that it reads, what it makes, its base name)."""


@rule(
    "zero-derivative",
    severity="warning",
    explanation="A step function is flat wherever it has a derivative: the gradient arrives, so nothing looks missing, "
    "and it is exactly 0. These parameters never learn.",
    fix="Let the gradient pass straight through: y = x + (x.round() - x).detach(), or use a soft "
    "version while training.",
)
def zero_derivative(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    flat = set(parameters_with(context, "student", "gradient_norm", 0.0))
    if loss is None or not flat:
        return  # measured, so that steps with a derivative of their own (torch.autograd.Function) are left alone
    side = context.student
    smooth, any_way, step = _in_the_loss(loss, side)
    kernels = _of_model(side)
    live, reached = _back(kernels, smooth, through_steps=False), _back(kernels, any_way, through_steps=True)
    parameters = side.structure.tensors["parameter"].tolist()
    paths = side.structure.parameters.column_texts("path")
    learning = {parameters[tensor] for tensor in live}
    blocked = sorted({parameters[tensor] for tensor in reached} - learning - {-1})
    found = [paths[row] for row in blocked if paths[row] in flat]
    if not found:
        return
    kernel = _nearest(kernels, live, reached)
    if kernel >= 0:
        path = side.path_of_kernel(kernel)
        step = f"{kernels[kernel][2]} in {path or 'the model'}{side.source_of_kernel(kernel)}"
    yield side.found(
        f"the gradient of {counted(len(found), 'parameter')} is 0, first {found[0]}: every way to the loss leads "
        f"through {step}",
        found[0].rpartition(".")[0],
    )


def _in_the_loss(loss: RecordedLoss, side: Side) -> tuple[set[int], set[int], str]:
    """(values of the student from which a way without a step leads to the loss, those with any way, a step's name)."""
    outside, carries = loss.outside, loss.outside.tensors["requires_grad"]
    kernels: list[Kernel] = [
        ([t for t in loss.inputs(kernel) if carries[t]], outside.kernels.values("outputs", kernel).tolist(), name)
        for kernel, name in enumerate(loss.kernels)
    ]
    read = {tensor for inputs, _, _ in kernels for tensor in inputs}
    ends = {t for _, outputs, _ in kernels for t in outputs if t not in read and carries[t]}
    live, reached = _back(kernels, ends, through_steps=False), _back(kernels, ends, through_steps=True)

    def own(tensors: Iterable[int]) -> set[int]:
        features = (
            t for t in tensors if loss.origin.get(t, frozenset()) == {"student"} and outside.tensors["producer"][t] < 0
        )
        return {row for t in features if (row := loss.model_tensor(t, side.structure)) >= 0}

    kernel = _nearest(kernels, live, reached)
    return own(live), own(reached), loss.where(kernel) if kernel >= 0 else ""


def _of_model(side: Side) -> list[Kernel]:
    names, carries = side.names, side.structure.tensors["requires_grad"].tolist()
    return [
        ([t for t in (*names.inputs[kernel], *names.also_reads[kernel]) if carries[t]], names.outputs[kernel], name)
        for kernel, name in enumerate(names.kernel_names)
    ]


def _back(kernels: Sequence[Kernel], ends: Iterable[int], *, through_steps: bool) -> set[int]:
    """The values from which a way leads to the ends."""
    reached = set(ends)
    for inputs, outputs, name in reversed(kernels):
        if name != "detach" and (through_steps or name not in _STEPS) and not reached.isdisjoint(outputs):
            reached.update(inputs)
    return reached


def _nearest(kernels: Sequence[Kernel], live: set[int], reached: set[int]) -> int:
    """The last step whose result still has a way to the loss; -1 where there is none."""
    at = (k for k in range(len(kernels) - 1, -1, -1) if kernels[k][2] in _STEPS)
    return next((k for k in at if not live.isdisjoint(kernels[k][1]) and not reached.isdisjoint(kernels[k][0])), -1)
