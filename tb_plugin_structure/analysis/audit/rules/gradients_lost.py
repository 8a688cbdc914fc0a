"""The gradients are zeroed between the backward pass and the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "gradients-lost",
    severity="error",
    explanation="Gradients arrived, and were gone when the optimizer stepped: it changed nothing.",
    fix="Call zero_grad() before the backward pass or after the optimizer's step, never between the two.",
)
def gradients_lost(context: Context) -> Iterator[Finding]:
    lost = parameters_with(context, "student", "lost_gradient", 1.0)
    if lost:
        yield context.student.found(
            f"the gradients of {counted(len(lost), 'parameter')} were zeroed before the optimizer stepped, first "
            f"{lost[0]}",
            lost[0].rpartition(".")[0],
        )
