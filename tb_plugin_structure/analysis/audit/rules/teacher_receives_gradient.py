"""The backward pass of the step ran through the teacher."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.mutual_learning import unless_it_learns
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "teacher-receives-gradient",
    severity="warning",
    explanation="The loss is not detached from the teacher: its backward pass runs as well, and costs memory and time.",
    fix="Run the teacher under torch.no_grad(), or detach its outputs in the loss.",
)
def teacher_receives_gradient(context: Context) -> Iterator[Finding]:
    reached = parameters_with(context, "teacher", "gradient_reached", 1.0)
    if reached and context.outside is not None:  # without a loss between the two it was a backward pass of its own
        owner = reached[0].rpartition(".")[0]
        yield context.teacher.found(
            f"a gradient reached {counted(len(reached), 'parameter')}, first {reached[0]}",
            owner,
            severity=unless_it_learns(context),
        )
