"""The loss uses trainable parameters of no recorded model, an adapter's, that the optimizer does not hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss
from tb_plugin_structure.analysis.audit.wording import counted

_UNTRAINED = "parameter"
"""Name of constants that are parameters and in no optimizer (see ``records.schema.TENSORS``)."""


@rule(
    "adapter-not-in-optimizer",
    severity="warning",
    explanation="Between the models the step ran parameters that require a gradient, such as those of an adapter, and "
    "the optimizer does not hold them: they stay as they were initialised.",
    fix="Give them to the optimizer as well: AdamW([*student.parameters(), *adapters.parameters()]).",
)
def adapter_not_in_optimizer(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None or not parameters_with(context, "student", "in_optimizer", 1.0):
        return  # no optimizer was given, or it belongs to something else
    tensors = loss.outside.tensors
    trainable = np.flatnonzero(tensors["requires_grad"] & (tensors["producer"] < 0)).tolist()
    forgotten = [row for row in trainable if tensors.text("name", row) == _UNTRAINED and _is_between(loss, row)]
    if not forgotten:
        return
    reader = next(kernel for kernel in range(loss.outside.kernels.rows) if forgotten[0] in loss.inputs(kernel))
    shapes = ", ".join(str(list(loss.outside.shape(row))) for row in forgotten[:3])
    count = counted(len(forgotten), "trainable parameter")
    yield Finding(
        f"{loss.where(reader)} reads {count} that the optimizer does not hold: {shapes}"
        + (" …" if len(forgotten) > 3 else ""),
        subject="outside",
    )


def _is_between(loss: RecordedLoss, parameter: int) -> bool:
    """Whether a parameter meets what a model gave, and a gradient comes back from there. Those of a generator do not:
    what it makes is what the models are given."""
    carries = loss.outside.tensors["requires_grad"]
    derived = {parameter}
    for kernel in range(loss.outside.kernels.rows):
        if not derived.isdisjoint(loss.inputs(kernel)):
            made = [t for t in loss.outside.kernels.values("outputs", kernel).tolist() if carries[t]]
            if any(loss.origin.get(tensor) for tensor in made):
                return True
            derived.update(made)
    return False
