"""The rows of the audit: one per aligned pair of module calls and per call without a counterpart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tb_plugin_structure.analysis.audit.causes import Causes
from tb_plugin_structure.analysis.audit.compare import UNMATCHED, Comparison, Comparisons, Options
from tb_plugin_structure.analysis.audit.costs import Cost, CostOfBoth, call_cost, total_cost
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.naming import shared_texts
from tb_plugin_structure.analysis.audit.side import Side, common_elements

MODEL_STAGE = "(model)"
"""Name of the stage that the model's own call belongs to."""


class Pair(NamedTuple):
    """One row of an alignment's pairs."""

    position: int
    teacher: int
    student: int
    kind: int
    confidence: float
    evidence: Sequence[str]
    group: int
    stack: int


def read_pairs(alignment: Any) -> list[Pair]:
    """Rows of ``alignment.pairs``, a table as declared in ``records.schema.ALIGNMENT_PAIRS`` or objects with its
    columns as attributes."""
    pairs = alignment.pairs
    if hasattr(pairs, "column_lists"):
        evidence = shared_texts(pairs, "evidence")
        columns = [pairs.numbers(name) for name in ("teacher", "student", "kind", "confidence")]
        ends = [pairs.numbers(name) for name in ("group", "stack")]
        return [
            Pair(index, t, s, kind, confidence, why, group, stack)
            for index, (t, s, kind, confidence, why, group, stack) in enumerate(
                zip(*columns, evidence, *ends, strict=True)
            )
        ]
    return [
        Pair(
            index,
            int(pair.teacher),
            int(pair.student),
            int(pair.kind),
            float(pair.confidence),
            tuple(pair.evidence),
            int(pair.group),
            int(pair.stack),
        )
        for index, pair in enumerate(pairs)
    ]


@dataclass(frozen=True, slots=True)
class Row(CostOfBoth):
    """One row; the columns of ``records.schema.AUDIT_ROWS`` are read off it."""

    pair: Pair
    level: int
    stage: str
    teacher: Feature | None
    student: Feature | None
    comparison: Comparison
    cause: str
    matched: str
    teacher_cost: Cost
    student_cost: Cost

    @property
    def verdict(self) -> int:
        return self.comparison.verdict

    @property
    def teacher_path(self) -> str:
        return self.teacher.path if self.teacher is not None else ""

    @property
    def student_path(self) -> str:
        return self.student.path if self.student is not None else ""


@dataclass(frozen=True)
class StageCost(CostOfBoth):
    """Totals of a stage on both sides."""

    stage: str
    teacher_cost: Cost
    student_cost: Cost


def build_rows(alignment: Any, teacher: Side, student: Side, options: Options) -> list[Row]:
    """All rows, in the student's execution order; what only the teacher has stands where the teacher ran it."""
    pairs = read_pairs(alignment)
    names = _StageNames(pairs, teacher, student)
    causes = Causes(teacher, student)
    comparisons = Comparisons(options)
    policies = [str(getattr(stack, "policy", "")) for stack in getattr(alignment, "stacks", [])]
    texts: dict[str, str] = {}
    return [
        _row(pair, names.of(pair), teacher, student, comparisons, causes, policies, texts)
        for pair in _in_execution_order(pairs)
    ]


def _in_execution_order(pairs: Sequence[Pair]) -> list[Pair]:
    """Student calls in order; a teacher-only call behind the last paired teacher call that began before it."""
    by_teacher = sorted((pair for pair in pairs if pair.teacher >= 0), key=lambda pair: (pair.teacher, pair.student))
    keys: dict[int, tuple[int, int, int]] = {}
    anchor = -1
    for pair in by_teacher:
        if pair.student >= 0:
            anchor = max(anchor, pair.student)
            keys[pair.position] = (pair.student, 0, pair.teacher)
        else:
            keys[pair.position] = (anchor, 1, pair.teacher)
    for pair in pairs:
        keys.setdefault(pair.position, (pair.student, 0, -1))
    return sorted(pairs, key=lambda pair: keys[pair.position])


class _StageNames:
    """The stage of each pair: the student's; the teacher's own name where the student has no such stage."""

    def __init__(self, pairs: Sequence[Pair], teacher: Side, student: Side) -> None:
        self.teacher, self.student = teacher, student
        votes: dict[str, Counter[str]] = {}
        for pair in pairs:
            if pair.teacher >= 0 and pair.student >= 0:
                stage = teacher.stages.of_call(pair.teacher)[0]
                votes.setdefault(stage, Counter())[student.stages.of_call(pair.student)[0]] += 1
        self.partner = {stage: counted.most_common(1)[0][0] for stage, counted in votes.items()}
        self._pair_of = {pair.teacher: pair.student for pair in pairs if pair.student >= 0}
        self._parents: list[int] = teacher.structure.module_calls["parent"].tolist()

    def of(self, pair: Pair) -> tuple[str, int]:
        if pair.student >= 0:
            stage, level = self.student.stages.of_call(pair.student)
        else:
            stage, level = self.teacher.stages.of_call(pair.teacher)
            stage = self._around(pair.teacher, stage) or self.partner.get(stage, stage)
        return stage or MODEL_STAGE, level

    def _around(self, call: int, stage: str) -> str:
        """The student's stage that the nearest paired call around a call of the teacher's belongs to; "" where none of
        the teacher's stage is paired. The blocks of one list may be paired with several stages."""
        while (call := self._parents[call]) >= 0 and self.teacher.stages.of_call(call)[0] == stage:
            if call in self._pair_of:
                return self.student.stages.of_call(self._pair_of[call])[0]
        return ""


def _row(
    pair: Pair,
    stage: tuple[str, int],
    teacher: Side,
    student: Side,
    comparisons: Comparisons,
    causes: Causes,
    policies: Sequence[str],
    texts: dict[str, str],
) -> Row:
    """`texts` holds each text once: thousands of rows share a few."""
    t = s = None
    if pair.teacher >= 0 and pair.student >= 0:
        elements = teacher.elements(pair.teacher), student.elements(pair.student)
        chosen = common_elements(*elements) if all(elements) else (None, None)
        t, s = teacher.feature(pair.teacher, chosen[0]), student.feature(pair.student, chosen[1])
        comparison = comparisons.of(t, s)
    else:
        t = teacher.feature(pair.teacher) if pair.teacher >= 0 else None
        s = student.feature(pair.student) if pair.student >= 0 else None
        comparison = Comparison(UNMATCHED, reason=f"only in the {'teacher' if s is None else 'student'}")
    shown = causes.explain(t, s, comparison.classes) if t is not None and s is not None else ""
    policy = policies[pair.stack] if 0 <= pair.stack < len(policies) else ""
    cause = "; ".join(text for text in (comparison.reason, shown) if text)
    matched = "; ".join(_reasons(policy, pair.evidence))
    return Row(
        pair,
        stage[1],
        stage[0],
        t,
        s,
        comparison,
        texts.setdefault(cause, cause),
        texts.setdefault(matched, matched),
        call_cost(teacher, pair.teacher),
        call_cost(student, pair.student),
    )


def _reasons(policy: str, evidence: Sequence[str]) -> list[str]:
    """Why two calls were paired; the policy of their stack first, unless the evidence names it already."""
    named = not policy or any(policy in text for text in evidence)
    return list(evidence) if named else [f"policy {policy}", *evidence]


def stage_costs(rows: Sequence[Row], teacher: Side, student: Side) -> list[StageCost]:
    """Totals of each stage in the order in which stages first appear; a parameter shared within a stage once."""
    calls: dict[str, tuple[list[int], list[int]]] = {}
    for row in rows:
        if row.stage == MODEL_STAGE:
            continue
        of_teacher, of_student = calls.setdefault(row.stage, ([], []))
        if row.pair.teacher >= 0:
            of_teacher.append(row.pair.teacher)
        if row.pair.student >= 0:
            of_student.append(row.pair.student)
    spanning = [
        _spanning({call: stage for stage, of in calls.items() for call in of[index]}, side)
        for index, side in enumerate((teacher, student))
    ]
    return [
        StageCost(
            stage,
            total_cost(teacher, set(of_teacher) - spanning[0]),
            total_cost(student, set(of_student) - spanning[1]),
        )
        for stage, (of_teacher, of_student) in calls.items()
    ]


def _spanning(stages: Mapping[int, str], side: Side) -> set[int]:
    """Calls with calls of another stage inside them, as the list of all blocks where the blocks are paired with the
    stages of a convolutional network: what it costs is counted with each of those."""
    found: set[int] = set()
    within: list[int] = []
    for call in sorted(stages):
        while within and side.call_ends[within[-1]] <= call:
            within.pop()
        found.update(outer for outer in within if stages[outer] != stages[call])
        within.append(call)
    return found
