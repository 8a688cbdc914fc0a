"""The student is trained in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted

_BY_MODE = ("BatchNorm", "SyncBatchNorm", "Dropout", "AlphaDropout", "DropPath", "StochasticDepth")


@rule(
    "student-in-eval",
    severity="warning",
    explanation="The optimizer trains the student while all of it is in evaluation mode: dropout does nothing and "
    "batch norm keeps the statistics it has. A validation pass often leaves a model so.",
    fix="student.train() at the beginning of each epoch; silence this where batch norm is frozen on purpose.",
)
def student_in_eval(context: Context) -> Iterator[Finding]:
    trained = set(parameters_with(context, "student", "in_optimizer", 1.0))
    structure = context.student.structure
    if not trained.intersection(parameters_with(context, "student", "gradient_reached", 1.0)):
        return
    if context.outside is None or bool(structure.modules["training"].any()):
        return
    by_mode = [
        path
        for row, path in enumerate(structure.module_paths)
        if structure.modules["calls"][row] and structure.module_classes[row].startswith(_BY_MODE)
    ]
    if by_mode:
        yield context.student.found(
            f"the student is trained in evaluation mode, with {counted(len(by_mode), 'layer')} of batch norm or "
            f"dropout, first {by_mode[0]}"
        )
