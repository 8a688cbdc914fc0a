"""The teacher's normalisation layers are in training mode."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.mutual_learning import unless_it_learns
from tb_plugin_structure.analysis.audit.twins import are_twins
from tb_plugin_structure.analysis.audit.wording import counted

_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LazyBatchNorm2d")


@rule(
    "teacher-training-mode",
    severity="warning",
    explanation=(
        "In training mode batch norm normalises by the batch and moves its statistics, under no_grad too: the teacher "
        "drifts and its targets depend on what else is in the batch. A parent module's train() switches a teacher back."
    ),
    fix="Call teacher.eval() after every train() of a module that holds it; silence this where it is wanted "
    "(OFD, and averages of the student's weights as in Mean Teacher and DINO).",
)
def teacher_training_mode(context: Context) -> Iterator[Finding]:
    structure = context.teacher.structure
    training = [
        path
        for row, path in enumerate(structure.module_paths)
        if structure.modules["training"][row] and structure.module_classes[row] in _NORMS
    ]
    if training:
        yield context.teacher.found(
            f"{counted(len(training), 'batch norm layer')} of the teacher in training mode, first {training[0]}",
            training[0],
            severity="info" if are_twins(context) else unless_it_learns(context),
        )
