"""Early features of the student are compared with late ones of the teacher, and late ones with early ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.compared_features import ComparedFeatures, compared_features


@rule(
    "crossed-hints",
    severity="warning",
    explanation="The pairs of features that the loss compares run in opposite orders in the two models: a list was "
    "reversed, or is counted from the other end. Where sizes differ, an interpolation hides it.",
    fix="Compare the k-th feature with the k-th; the table of pairs says which belong together.",
)
def crossed_hints(context: Context) -> Iterator[Finding]:
    if context.outside is None:
        return
    pairs = [
        (compared.teacher[0].rows[1], compared.student[0].rows[1], compared)
        for compared in compared_features(
            context.outside, teacher=context.teacher.structure, student=context.student.structure
        )
        if len(compared.teacher) == len(compared.student) == 1
        and min(compared.teacher[0].rows[1], compared.student[0].rows[1]) >= 0
    ]
    once = [pair for pair in pairs if _alone(pair, pairs)]
    for first, second in combinations(once, 2):
        if (first[0] - second[0]) * (first[1] - second[1]) < 0:
            yield Finding(f"{_text(first[2])}, but {_text(second[2])}", subject="outside")
            return  # once: the others cross alike


def _alone(pair: tuple[int, int, ComparedFeatures], pairs: list[tuple[int, int, ComparedFeatures]]) -> bool:
    """Whether neither of its features is compared with another one as well, as where each level learns from all."""
    return all((pair[0] == t) == (pair[1] == s) for t, s, _ in pairs)


def _text(compared: ComparedFeatures) -> str:
    return f"{compared.student[0].path or 'the output'} learns from {compared.teacher[0].path or 'the output'}"
