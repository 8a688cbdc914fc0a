"""Dropout is active in the teacher."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.mutual_learning import unless_it_learns
from tb_plugin_structure.analysis.audit.twins import are_twins
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "dropout-in-teacher",
    severity="warning",
    explanation="Dropout in the teacher makes its targets random: the student learns from noise.",
    fix="teacher.eval(). An average of the student's weights may be noisy on purpose (Mean Teacher).",
)
def dropout_in_teacher(context: Context) -> Iterator[Finding]:
    structure = context.teacher.structure
    active = []
    for row, class_name in enumerate(structure.module_classes):
        if not structure.modules["training"][row] or not structure.modules["calls"][row]:
            continue
        if class_name.startswith(("Dropout", "AlphaDropout", "DropPath", "StochasticDepth")):
            attributes = structure.attributes(row)
            if attributes.get("p", attributes.get("drop_prob", "?")) not in ("0", "0.0"):
                active.append(structure.module_paths[row])
    if active:
        yield context.teacher.found(
            f"{counted(len(active), 'dropout layer')} active in the teacher, first {active[0]}",
            active[0],
            severity="info" if are_twins(context) else unless_it_learns(context),
        )
