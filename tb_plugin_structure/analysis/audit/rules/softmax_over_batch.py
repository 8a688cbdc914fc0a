"""A softmax runs over the batch."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit import feature as dim
from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule


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
        for kernel, name in enumerate(side.names.kernel_names):
            if name not in ("_softmax", "_log_softmax", "softmax", "log_softmax") or not side.names.inputs[kernel]:
                continue
            axis = side.names.arguments(kernel).integer(1, "dim")
            label = side.names.of(side.names.inputs[kernel][0])
            if axis is None or len(label) < 2:
                continue
            names = [dimension.name for dimension in label]
            known = dim.UNKNOWN not in names
            if known and names[axis] == dim.BATCH and names.count(dim.BATCH) == 1:
                path = side.path_of_kernel(kernel)
                where = f"{path or 'the model'}{side.source_of_kernel(kernel)}"
                yield side.found(f"{where}: softmax over the batch of [{', '.join(names)}]", path)
