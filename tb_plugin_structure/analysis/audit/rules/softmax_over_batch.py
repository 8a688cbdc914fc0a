"""A softmax runs over the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_names import SOFTMAX, softmaxes_of_the_loss
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "softmax-over-batch",
    severity="warning",
    explanation=(
        "Each example's probabilities depend on the other examples of the batch. softmax without dim does this for "
        "inputs of 0, 1 or 3 dimensions."
    ),
    fix="Give softmax the dimension: dim=-1.",
)
def softmax_over_batch(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        lines: dict[tuple[str, str], list[str]] = {}  # the same line in every block is one finding
        for kernel, name in enumerate(side.names.kernel_names):
            if name not in SOFTMAX or not side.names.inputs[kernel]:
                continue
            axis = side.names.arguments(kernel).integer(1, "dim")
            label = side.names.of(side.names.inputs[kernel][0])
            names = [dimension.name for dimension in label]
            if _is_batch(names, axis):
                path = side.path_of_kernel(kernel)
                lines.setdefault((side.source_of_kernel(kernel), ", ".join(names)), []).append(path)
        for (source, meaning), paths in lines.items():
            others = f" and {counted(len(paths) - 1, 'other call')}" if len(paths) > 1 else ""
            where = f"{paths[0] or 'the model'}{source}{others}"
            yield side.found(f"{where}: softmax over the batch of [{meaning}]", paths[0])
    yield from _in_the_loss(context)


def _is_batch(names: Sequence[str], axis: int | None) -> bool:
    known = axis is not None and len(names) > 1 and dim.UNKNOWN not in names
    return known and names[axis or 0] == dim.BATCH and names.count(dim.BATCH) == 1


def _in_the_loss(context: Context) -> Iterator[Finding]:
    """A softmax of the training step itself, over what a model gave."""
    for role, where, label, axis in softmaxes_of_the_loss(context):
        names = [dimension.name for dimension in label]
        if _is_batch(names, axis):
            yield Finding(f"{where}: softmax over the batch of the {role}'s [{', '.join(names)}]", subject="outside")
