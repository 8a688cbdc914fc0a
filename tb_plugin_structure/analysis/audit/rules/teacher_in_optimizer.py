"""The optimizer of the step holds parameters of the teacher."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.mutual_learning import unless_it_learns
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "teacher-in-optimizer",
    severity="error",
    explanation="The optimizer updates the teacher: weight decay alone changes it, and the targets move.",
    fix="Give the optimizer the parameters of the student and of the adapters only.",
)
def teacher_in_optimizer(context: Context) -> Iterator[Finding]:
    held = parameters_with(context, "teacher", "in_optimizer", 1.0)
    if held:
        yield context.teacher.found(
            f"the optimizer holds {counted(len(held), 'parameter')} of the teacher, first {held[0]}",
            severity=unless_it_learns(context),
        )
