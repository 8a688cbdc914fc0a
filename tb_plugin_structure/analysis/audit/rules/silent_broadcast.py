"""Both operands of the loss grow to meet each other."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.recorded_loss import recorded_loss


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
        if loss.grows_both(first, second, result):
            yield Finding(
                f"{loss.where(kernel)}: {list(shapes[0])} and {list(shapes[1])} broadcast to {list(result)}",
                subject="outside",
            )
