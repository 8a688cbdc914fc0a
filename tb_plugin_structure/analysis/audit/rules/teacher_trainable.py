"""The teacher's parameters still require gradients."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.mutual_learning import unless_it_learns


@rule(
    "teacher-trainable",
    severity="warning",
    explanation=(
        "A teacher whose parameters require gradients keeps its activations for the backward pass, is counted as "
        "trainable, and is trained if its parameters reach the optimizer."
    ),
    fix="teacher.eval().requires_grad_(False), and run it under torch.no_grad().",
)
def teacher_trainable(context: Context) -> Iterator[Finding]:
    trainable = context.teacher.total("trainable_parameters")
    if not trainable:
        return
    total = context.teacher.total("parameters")
    # Two models recorded for comparison alone are not being trained yet: then it is only worth knowing.
    training = context.outside is not None or context.student.structure.header.provenance.training
    yield context.teacher.found(
        f"{trainable:,.0f} of the teacher's {total:,.0f} parameters require gradients",
        severity=unless_it_learns(context, "warning") if training else "info",
    )
