"""Batch norm of the student is in evaluation mode, and its weights are trained."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.rules.student_in_eval import NORMS, depends_on_mode
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "batch-norm-fixed",
    severity="info",
    explanation="It normalises by the statistics that it was loaded with and keeps them, while the layers before it "
    "change: detectors want that, a student that starts from nothing does not.",
    fix="student.train() puts it back; freeze its weights as well where it is wanted.",
)
def batch_norm_fixed(context: Context) -> Iterator[Finding]:
    structure = context.student.structure
    if context.outside is None or not bool(structure.modules["training"].any()):
        return  # student-in-eval says it of the whole model
    reached = {path.rpartition(".")[0] for path in parameters_with(context, "student", "gradient_reached", 1.0)}
    fixed = [
        path
        for row, path in enumerate(structure.module_paths)
        if path in reached
        and structure.module_classes[row].startswith(NORMS)
        and not structure.modules["training"][row]
        and depends_on_mode(context.student, row)
    ]
    if fixed:
        yield context.student.found(
            f"{counted(len(fixed), 'batch norm layer')} of the student in evaluation mode while its weights are "
            f"trained, first {fixed[0]}",
            fixed[0],
        )
