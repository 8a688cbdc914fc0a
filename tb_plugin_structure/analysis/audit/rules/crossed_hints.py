"""Early features of the student are compared with late ones of the teacher, and late ones with early ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from tb_plugin_structure.analysis.audit.findings import Context, Finding, rule
from tb_plugin_structure.analysis.audit.loss_chain import unscaled
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.analysis.compared_features import ComparedFeatures, Feature, compared_features


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
        _Pair(made[0], made[1], compared)
        for compared in compared_features(
            context.outside, teacher=context.teacher.structure, student=context.student.structure
        )
        if len(compared.teacher) == len(compared.student) == 1 and min(made := _made(context, compared)) >= 0
    ]
    once = [pair for pair in pairs if _alone(pair, pairs)]
    for first, second in combinations(once, 2):
        if (first.teacher - second.teacher) * (first.student - second.student) >= 0:
            continue
        earlier, later = sorted((first, second), key=lambda pair: pair.teacher)
        # Two branches have no order: only what one is computed from comes before it.
        if _feeds(context.teacher, earlier.teacher, later.teacher) and _feeds(
            context.student, later.student, earlier.student
        ):
            yield Finding(f"{_text(first.compared)}, but {_text(second.compared)}", subject="outside")
            return  # once: the others cross alike


class _Pair(NamedTuple):
    """The values that two compared features are, by their rows in the models' records."""

    teacher: int
    student: int
    compared: ComparedFeatures


def _made(context: Context, compared: ComparedFeatures) -> tuple[int, int]:
    return (
        _tensor(context.teacher, compared.teacher[0]),
        _tensor(context.student, compared.student[0]),
    )


def _tensor(side: Side, feature: Feature) -> int:
    """What a feature was before it was sliced, reshaped or scaled, which a model may do after its head ran."""
    operators = side.structure.kernels["operator"].tolist()
    made = [
        tensor
        for kernel in range(bisect_left(operators, feature.rows[1]), bisect_right(operators, feature.rows[1]))
        for tensor in side.names.outputs[kernel]
    ]
    return unscaled(side, made[-1]) if feature.rows[1] >= 0 and made else -1


def _feeds(side: Side, tensor: int, result: int) -> bool:
    """Whether one value is computed from another."""
    producers = side.structure.tensors["producer"]
    reached = {tensor}
    for kernel in range(max(int(producers[tensor]), -1) + 1, int(producers[result]) + 1):
        if not reached.isdisjoint((*side.names.inputs[kernel], *side.names.also_reads[kernel])):
            reached.update(side.names.outputs[kernel])
    return result in reached


def _alone(pair: _Pair, pairs: list[_Pair]) -> bool:
    """Whether neither of its features is compared with another one as well, as where each level learns from all."""
    return all((pair.teacher == other.teacher) == (pair.student == other.student) for other in pairs)


def _text(compared: ComparedFeatures) -> str:
    return f"{compared.student[0].path or 'the output'} learns from {compared.teacher[0].path or 'the output'}"
