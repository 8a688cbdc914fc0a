"""The optimizer holds parameters of the student that are frozen."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.measured import parameters_with
from tb_plugin_structure.analysis.audit.wording import counted


@rule(
    "frozen-in-optimizer",
    severity="info",
    explanation="They require no gradient, so the optimizer that was given them never moves them: a part of the "
    "student stays as it is.",
    fix="requires_grad_(True) where they should learn; else give the optimizer the others alone.",
)
def frozen_in_optimizer(context: Context) -> Iterator[Finding]:
    held = parameters_with(context, "student", "in_optimizer", 1.0)
    frozen = set(parameters_with(context, "student", "requires_grad", 0.0))
    found = [path for path in held if path in frozen]
    if found and len(found) < len(held):  # student-without-gradient says it of all
        yield context.student.found(
            f"the optimizer holds {counted(len(found), 'frozen parameter')}, first {found[0]}",
            found[0].rpartition(".")[0],
        )
