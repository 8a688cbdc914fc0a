"""The backward pass adds to gradients that the optimizer has stepped with already."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "gradients-not-zeroed",
    severity="error",
    explanation="The optimizer stepped, the gradients stayed, and the next backward pass added to them: each step "
    "repeats all that came before it, and training diverges or crawls.",
    fix="optimizer.zero_grad() after each optimizer.step(), or before each backward pass.",
)
def gradients_not_zeroed(context: Context) -> Iterator[Finding]:
    for side in context.sides:
        stale = parameters_with(context, side.role, "stale_gradient", 1.0)
        if stale:
            yield side.found(
                f"the gradients of {counted(len(stale), 'parameter')} were added to those of the step before, first "
                f"{stale[0]}: nothing zeroed them after the optimizer's step",
                stale[0].rpartition(".")[0],
            )
