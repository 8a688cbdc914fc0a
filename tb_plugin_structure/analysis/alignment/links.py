"""What matching produces: links between nodes of two trees, and pairings of stacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tb_plugin_structure.analysis.alignment.stacks import Unit


class Link(NamedTuple):
    """A teacher node and a student node that correspond.

    score: fit in the units of evidence, about 1 for a leaf of full evidence.
    how: what made the pair: "root", "wrapper", "sequence", "fused", "moved", "policy", "weights", "pin", "stage",
        "nesting" (from what is paired inside), "flow" (from what it feeds), "place" (its name within a pair).
    group: number of an n-to-1 group, -1 for none.
    stack: position in the list of stacks, -1 for what is no block of one.
    rival: the best score that either side had elsewhere.
    """

    teacher: int
    student: int
    score: float
    how: str
    group: int = -1
    stack: int = -1
    rival: float = 0.0


@dataclass
class StackMatch:
    """Two stacks and the positions of their elements that are paired, (teacher, student)."""

    teacher: Unit
    student: Unit
    policy: str
    pairs: list[tuple[int, int]]
    interchangeable: bool


@dataclass
class Outcome:
    """Links and stacks of a scope; nodes are offsets from the scope's nodes."""

    links: list[Link] = field(default_factory=list)
    stacks: list[StackMatch] = field(default_factory=list)
    groups: int = 0

    def add(self, inner: Outcome, teacher: int, student: int) -> None:
        """Take over the outcome of a scope that begins at these offsets."""
        groups, stacks = self.groups, len(self.stacks)
        self.links += [
            Link(
                node_t + teacher,
                node_s + student,
                score,
                how,
                group + groups if group >= 0 else -1,
                stack + stacks if stack >= 0 else -1,
                rival,
            )
            for node_t, node_s, score, how, group, stack, rival in inner.links
        ]
        self.stacks += [
            StackMatch(
                found.teacher.shifted(teacher),
                found.student.shifted(student),
                found.policy,
                found.pairs,
                found.interchangeable,
            )
            for found in inner.stacks
        ]
        self.groups += inner.groups
