"""The optimizer of the step leaves parameters of the student out."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted
from tb_plugin_structure.analysis.external_values import takes_a_gradient


@rule(
    "student-not-in-optimizer",
    severity="warning",
    explanation="It requires a gradient, but the optimizer of the step does not hold it: it is never updated.",
    fix="Add it to the optimizer, or set requires_grad to False.",
)
def student_not_in_optimizer(context: Context) -> Iterator[Finding]:
    trained = set(parameters_with(context, "student", "requires_grad", 1.0))
    left_out = [path for path in parameters_with(context, "student", "in_optimizer", 0.0) if path in trained]
    held = parameters_with(context, "student", "in_optimizer", 1.0)
    if not held and takes_a_gradient(context.student.structure):
        return  # the step trains what made the student's input: the generator's turn of an adversarial distillation
    if left_out:
        yield context.student.found(
            f"the optimizer leaves out {counted(len(left_out), 'parameter')}, first {left_out[0]}"
        )
