"""Findings, and the rules that make them.

A rule is a function that looks at a comparison and yields what it found. Register your own:

>>> @rule("wide-student", severity="info", explanation="A student wider than its teacher saves nothing.",
...       fix="Reduce the width.")
... def wide_student(context):
...     if context.student.total("parameters") > context.teacher.total("parameters"):
...         yield context.student.found("the student is larger than its teacher")
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tb_plugin_structure.analysis.audit.rows import Row
    from tb_plugin_structure.analysis.audit.side import Side
    from tb_plugin_structure.records.measurement import Measurement
    from tb_plugin_structure.records.structure import Structure

SEVERITIES = ("info", "warning", "error")
"""In ascending order."""


@dataclass(frozen=True)
class Finding:
    """Something worth knowing before the first training step.

    Attributes:
        message: What is the case, naming the module.
        subject: "teacher", "student", "pair" or "outside".
        module_path: The module concerned; "" for the model or none.
        row: Row of the audit's rows; -1 when it concerns none.
        rule: Id of the rule, e.g. "teacher-trainable".
        severity: "info", "warning" or "error"; "" takes the rule's own.
        explanation: Why it matters.
        fix: What to do; "" takes the rule's own.
    """

    message: str
    subject: str = "pair"
    module_path: str = ""
    row: int = -1
    rule: str = ""
    severity: str = ""
    explanation: str = ""
    fix: str = ""


@dataclass
class Context:
    """What a rule may look at. `outside` is the record of what ran between the models of a recorded step (the loss),
    `measurements` those of the step, by "teacher" and "student"; both may be absent. `hooks` are the (teacher path,
    student path) pairs that the user means to hook."""

    teacher: Side
    student: Side
    rows: Sequence[Row]
    outside: Structure | None = None
    measurements: Mapping[str, Measurement] = field(default_factory=dict)
    hooks: Sequence[tuple[str, str]] = ()
    live: dict[str, bytearray] = field(default_factory=dict, repr=False)
    """Role -> kernels whose values matter; several rules ask for it."""

    @property
    def sides(self) -> tuple[Side, Side]:
        return (self.teacher, self.student)

    @property
    def hooked(self) -> Iterator[tuple[Side, str]]:
        """(side, path) of every hook, each once; the model itself, whose path is empty, always runs."""
        pairs = [(side, path) for teacher, student in self.hooks for side, path in ((0, teacher), (1, student)) if path]
        yield from ((self.sides[side], path) for side, path in dict.fromkeys(pairs))


Check = Callable[[Context], Iterable[Finding]]


@dataclass(frozen=True)
class Rule:
    """A registered rule."""

    id: str
    severity: str
    explanation: str
    fix: str
    check: Check


_RULES: dict[str, Rule] = {}


def rule(id: str, *, severity: str, explanation: str, fix: str) -> Callable[[Check], Check]:
    """Register a function as a rule; a second rule of the same id replaces the first.

    Raises:
        ValueError: When the severity is not one of "info", "warning", "error".
    """
    if severity not in SEVERITIES:
        raise ValueError(f"rule {id!r}: severity is {severity!r}, expected one of {', '.join(SEVERITIES)}")

    def register(check: Check) -> Check:
        _RULES[id] = Rule(id, severity, explanation, fix, check)
        return check

    return register


def unregister(id: str) -> None:
    """Take a rule out again. Raises KeyError when there is none of that id."""
    del _RULES[id]


def registered_rules() -> dict[str, Rule]:
    """All registered rules by id, built-in ones included."""
    importlib.import_module("tb_plugin_structure.analysis.audit.rules")  # registers them
    return dict(_RULES)


@dataclass(frozen=True)
class Settings:
    """Which findings are kept, and how severe they are.

    Attributes:
        silence: Entries "rule-id" or "rule-id:path pattern" (as in fnmatch: ``encoder.layer.*``).
        severities: Rule id -> severity that replaces the rule's own.
    """

    silence: tuple[str, ...] = ()
    severities: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise ValueError when a rule or severity named here does not exist."""
        known = registered_rules()
        for entry in (*self.silence, *self.severities):
            id = entry.partition(":")[0]
            if id not in known and id != "*":
                raise ValueError(f"there is no rule {id!r}; the rules are {', '.join(sorted(known))}")
        for id, severity in self.severities.items():
            if severity not in SEVERITIES:
                raise ValueError(f"severity of {id!r} is {severity!r}, expected one of {', '.join(SEVERITIES)}")

    def silenced(self, finding: Finding) -> bool:
        for entry in self.silence:
            id, colon, pattern = entry.partition(":")
            if id in (finding.rule, "*") and (not colon or fnmatch.fnmatchcase(finding.module_path, pattern)):
                return True
        return False


def find(context: Context, settings: Settings | None = None) -> list[Finding]:
    """Run all rules; the most severe findings first. A rule that raises becomes a finding itself: a fault in a user's
    rule must not hide what the others found."""
    settings = settings or Settings()
    found: list[Finding] = []
    for registered in registered_rules().values():
        found.extend(_run(registered, context))
    rows = _first_rows(context)
    kept = [
        replace(
            finding,
            severity=settings.severities.get(finding.rule, finding.severity),
            row=finding.row if finding.row >= 0 else rows.get((finding.subject, finding.module_path), -1),
        )
        for finding in found
        if not settings.silenced(finding)
    ]
    return sorted(kept, key=lambda finding: -SEVERITIES.index(finding.severity))


def _first_rows(context: Context) -> dict[tuple[str, str], int]:
    """(subject, module path) -> the first row of that module, so that a finding leads to it."""
    rows: dict[tuple[str, str], int] = {}
    for index, row in enumerate(context.rows):
        for subject, feature in (("teacher", row.teacher), ("student", row.student)):
            if feature is not None and feature.path:
                rows.setdefault((subject, feature.path), index)
    return rows


def _run(registered: Rule, context: Context) -> Iterator[Finding]:
    try:
        for finding in registered.check(context):
            yield replace(
                finding,
                rule=registered.id,
                severity=finding.severity or registered.severity,
                explanation=finding.explanation or registered.explanation,
                fix=finding.fix or registered.fix,
            )
    except Exception as error:
        yield Finding(
            f"rule {registered.id!r} failed: {type(error).__name__}: {error}",
            rule=registered.id,
            severity="info",
            explanation="The rule could not read this record; the other rules are not affected.",
            fix="Report it with the record, or silence the rule.",
        )
