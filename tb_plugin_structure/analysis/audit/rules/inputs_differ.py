"""Teacher and student were given the same examples in another order, or other ones."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import inputs_with
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss
from tb_plugin_structure.analysis.audit.twins import are_twins

_REORDERED, _OTHER = 1.0, 2.0
_REARRANGING = frozenset(
    {
        "index", "index_select", "gather", "index_add", "index_put", "scatter", "take", "take_along_dim", "split",
        "split_with_sizes", "chunk", "unbind", "select", "slice", "roll", "flip", "sort", "topk", "masked_select",
    }
)  # fmt: skip


@rule(
    "inputs-differ",
    severity="warning",
    explanation="The loss compares the k-th output of the teacher with the k-th of the student, and these are outputs "
    "for different examples.",
    fix="Draw one batch, and give the same tensor to both models; a shuffled copy, or a second loader that shuffles "
    "by itself, has another order.",
)
def inputs_differ(context: Context) -> Iterator[Finding]:
    loss = recorded_loss(context)
    if loss is None or not any(loss.is_elementwise(kernel) for kernel, _ in loss.meetings()):
        return  # relations between examples, or no comparison at all
    reordered = inputs_with(context, "student", "input_order", _REORDERED)
    other = inputs_with(context, "student", "input_order", _OTHER)
    if reordered and not _rearranges(loss):
        yield Finding(
            f"teacher and student were given the same examples in another order (input {reordered[0]})",
            subject="outside",
        )
    elif other and not reordered and not are_twins(context):
        yield Finding(
            f"teacher and student were given different values of one shape (input {other[0]})",
            subject="outside",
            severity="info",
            explanation="Two views of one image, or two loaders that shuffle by themselves? With the latter each "
            "example learns from the teacher's answer to another one.",
        )


def _rearranges(loss: RecordedLoss) -> bool:
    """Whether the step puts what a model gave into another order, or takes it apart, before it is compared."""
    return any(
        name in _REARRANGING and len(loss.origin.get(loss.inputs(kernel)[0], ())) == 1
        for kernel, name in enumerate(loss.kernels)
        if loss.inputs(kernel)
    )
