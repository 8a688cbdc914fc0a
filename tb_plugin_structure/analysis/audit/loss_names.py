"""The meaning of the dimensions of what ran between the models of a step: its loss, its adapters, its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tb_plugin_structure.analysis.audit.arguments import kernel_arguments
from tb_plugin_structure.analysis.audit.findings import Context
from tb_plugin_structure.analysis.audit.kernel_meanings import Label
from tb_plugin_structure.analysis.audit.naming import Names
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss
from tb_plugin_structure.analysis.audit.side import Side

SOFTMAX = ("_softmax", "_log_softmax", "softmax", "log_softmax")


class LossNames(Names):
    """Dimension names of the values of a recorded loss, from those of the features that it was given."""

    def __init__(self, loss: RecordedLoss, sides: Mapping[str, Side]) -> None:
        super().__init__(loss.outside)
        self._loss, self._sides = loss, sides

    def _run(self) -> None:
        for tensor, roles in self._loss.origin.items():
            if len(roles) == 1 and self.structure.tensors["producer"][tensor] < 0:
                side = self._sides[next(iter(roles))]
                row = self._loss.model_tensor(tensor, side.structure)
                if row >= 0:
                    self.labels[tensor] = side.meaning(row)
        self._forward()


def loss_names(context: Context) -> tuple[RecordedLoss, LossNames] | None:
    """The loss of the recorded step with the meaning of its values; None when no step was recorded."""
    loss = recorded_loss(context)
    return None if loss is None else (loss, LossNames(loss, {side.role: side for side in context.sides}))


def softmaxes_of_the_loss(context: Context) -> Iterator[tuple[str, str, Label, int | None]]:
    """(role, operator with its line, meaning of the dimensions, dimension) of each softmax that the step applied to a
    value of one model, each line once for each model."""
    found = loss_names(context)
    if found is None:
        return
    loss, names = found
    seen: set[tuple[str, str]] = set()
    for kernel, name in enumerate(loss.kernels):
        roles = loss.origin.get(loss.inputs(kernel)[0], ()) if name in SOFTMAX and loss.inputs(kernel) else ()
        if len(roles) == 1:
            role, where = next(iter(roles)), loss.where(kernel)
            if (role, where) not in seen:
                seen.add((role, where))
                axis = kernel_arguments(loss.outside, kernel).integer(1, "dim")
                yield role, where, names.of(loss.inputs(kernel)[0]), axis
