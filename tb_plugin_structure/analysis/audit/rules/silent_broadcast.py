"""Both operands of the loss grow to meet each other."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.recorded_loss import RecordedLoss, recorded_loss


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
    loss = recorded_loss(context)
    if loss is None:
        return
    for kernel, first, second, result in loss.broadcasts():
        shapes = [loss.outside.shape(tensor) for tensor in (first, second)]
        if loss.grows_both(first, second, result) and not _is_meant(loss, first, second):
            yield Finding(
                f"{loss.where(kernel)}: {list(shapes[0])} and {list(shapes[1])} broadcast to {list(result)}",
                subject="outside",
            )


def _is_meant(loss: RecordedLoss, first: int, second: int) -> bool:
    """Whether every one is compared with every other one on purpose, as relational losses do: a column with a row, two
    values that were each given a dimension for it, or a value with itself."""
    shapes = [loss.outside.shape(tensor) for tensor in (first, second)]
    if len(shapes[0]) == len(shapes[1]):
        if len(shapes[0]) == 2:
            return True
        makers = [int(loss.outside.tensors["producer"][tensor]) for tensor in (first, second)]
        if all(kernel >= 0 and loss.kernels[kernel] == "unsqueeze" for kernel in makers):
            return True
    return loss.sources(first) == loss.sources(second)
