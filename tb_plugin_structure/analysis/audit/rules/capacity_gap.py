"""The two models differ very much in size."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule

LARGE_GAP = 20.0
"""Teacher over student parameters above which a student seldom follows (Mirzadeh et al., "Improved Knowledge
Distillation via Teacher Assistant", 2020)."""


@rule(
    "capacity-gap",
    severity="warning",
    explanation="A student far smaller than its teacher cannot follow it well; intermediate sizes help.",
    fix="Consider a teacher assistant between the two, or a smaller teacher.",
)
def capacity_gap(context: Context) -> Iterator[Finding]:
    teacher, student = context.teacher.total("parameters"), context.student.total("parameters")
    if teacher > LARGE_GAP * student > 0:
        yield Finding(f"the teacher has {teacher / student:.0f} times the parameters of the student")
    elif student > teacher > 0:
        yield Finding(
            f"the student has more parameters than the teacher ({student / teacher:.2f} ×)",
            severity="info",
            explanation="Distillation into a larger student is unusual; the roles may be exchanged.",
            fix="Check which model is the teacher.",
        )
