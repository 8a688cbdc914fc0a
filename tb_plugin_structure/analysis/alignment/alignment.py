"""The result of an alignment, and the function that makes one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tb_plugin_structure.analysis.alignment.collector import collection_paused
from tb_plugin_structure.analysis.alignment.confidence import UNPAIRED, nested_confidences, own_confidences
from tb_plugin_structure.analysis.alignment.counts import kind_counts
from tb_plugin_structure.analysis.alignment.edit_script import edit_script
from tb_plugin_structure.analysis.alignment.flow import pair_by_flow
from tb_plugin_structure.analysis.alignment.functional import rows_of_functions
from tb_plugin_structure.analysis.alignment.links import Link, StackMatch
from tb_plugin_structure.analysis.alignment.matching import Matcher
from tb_plugin_structure.analysis.alignment.merged import Merged, Row, merge
from tb_plugin_structure.analysis.alignment.nesting import pair_composites
from tb_plugin_structure.analysis.alignment.opaque_layers import pair_opaque_layers
from tb_plugin_structure.analysis.alignment.operators import OperatorPairs, align_operators
from tb_plugin_structure.analysis.alignment.pair_kinds import (
    DELETED,
    INSERTED,
    MOVED,
    own_kinds,
    whole_kinds,
)
from tb_plugin_structure.analysis.alignment.pins import Pins, check_pins, pinned_nodes, respect_pins
from tb_plugin_structure.analysis.alignment.policies import POLICIES, PolicyError
from tb_plugin_structure.analysis.alignment.reasons import reasons
from tb_plugin_structure.analysis.alignment.same_place import pair_by_place
from tb_plugin_structure.analysis.alignment.sharing import sharing_edits
from tb_plugin_structure.analysis.alignment.summary import sentence
from tb_plugin_structure.analysis.alignment.tree_building import build_tree
from tb_plugin_structure.records.schema import ALIGNMENT_OPERATOR_PAIRS, ALIGNMENT_PAIRS
from tb_plugin_structure.records.strings import StringPool, Strings
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array, Table, encode_table
from tb_plugin_structure.v1 import alignment_pb2

Policy = str | Mapping[str, "str | Sequence[int]"]

_MOST_ALTERNATIVES = 64


def align(*, teacher: Structure, student: Structure, policy: Policy = "copy", pins: Pins | None = None) -> Alignment:
    """Find which part of the student corresponds to which part of the teacher.

    Args:
        teacher: The record of the one model.
        student: The record of the other.
        policy: How stacks of equal blocks of unequal depth are paired: a name of
            :data:`~tb_plugin_structure.analysis.alignment.policies.POLICIES`, or a mapping from the student's (or
            teacher's) stack path to a name or a list of indices (for each block of the shorter side the block of the
            longer one, -1 for none); the key ``""`` sets the default of stacks that are not named. Where weights show
            which blocks were kept, they decide.
        pins: Student path -> teacher path, a list of teacher paths, or None for no counterpart.

    Raises:
        PinError: A pin names an unknown module (the message lists the nearest names) or contradicts another.
        PolicyError: A policy is unknown or a list does not fit its stack.
    """
    return Alignment(teacher, student, policy, dict(pins or {}))


class Alignment:
    """Which calls of two models correspond. Stateless: changing a pin or a policy makes a new alignment.

    Attributes:
        teacher: The teacher's record.
        student: The student's record.
        rows: The merged tree of module calls, parents before children.
        stacks: ``alignment_pb2.Stack`` of each pair of stacks.
        edits: ``alignment_pb2.Edit``, coarsest first.
        counts: ``alignment_pb2.KindCount`` of each kind.
    """

    def __init__(self, teacher: Structure, student: Structure, policy: Policy, pins: dict[str, Any]) -> None:
        self.teacher, self.student = teacher, student
        self.policy, self.pins = policy, pins
        _check_policy(policy)
        with collection_paused():
            self._build(teacher, student, policy, pins)

    # ---- building

    def _build(self, teacher: Structure, student: Structure, policy: Policy, pins: dict[str, Any]) -> None:
        self._tree_t, self._tree_s = build_tree(teacher), build_tree(student)
        checked = check_pins(pins, self._tree_t, self._tree_s)
        self._pairs_pinned, self._alone = pinned_nodes(checked, self._tree_t, self._tree_s)
        matcher = Matcher(self._tree_t, self._tree_s, policy, self._pairs_pinned, self._alone)
        outcome = matcher.run()
        outcome.links += pair_composites(self._tree_t, self._tree_s, outcome)
        outcome.links += pair_opaque_layers(self._tree_t, self._tree_s, outcome.links)
        outcome.links += pair_by_flow(self._tree_t, self._tree_s, outcome.links)
        outcome.links += pair_by_place(self._tree_t, self._tree_s, outcome.links)
        outcome.links = respect_pins(outcome.links, self._pairs_pinned, self._alone, self._tree_t, self._tree_s)
        self._matches = outcome.stacks
        self.rows = self._rows(outcome.links, matcher)
        self.stacks = [self._stack(match, matcher) for match in outcome.stacks]
        self.counts = kind_counts(self.rows, teacher, student)
        self._functions = rows_of_functions(self.rows, teacher, student)
        self._shared = sharing_edits(self.rows, teacher, student)
        self.edits = edit_script(self.rows, self.stacks, teacher, student, self._shared, self._functions)

    def _rows(self, links: list[Link], matcher: Matcher) -> list[Row]:
        """The merged tree: order, kinds, confidence and reasons, found for all rows at once."""
        tree_t, tree_s = self._tree_t, self._tree_s
        best: dict[tuple[int, int], Link] = {}
        for link in links:
            call_t, call_s = tree_t.call[link.teacher], tree_s.call[link.student]
            if call_t >= 0 and call_s >= 0:
                best.setdefault((call_t, call_s), link)
        pairs = list(best.values())
        parents_t, parents_s = (
            structure.module_calls["parent"].astype(np.int64) for structure in (self.teacher, self.student)
        )
        merged = merge(list(best), parents_t, parents_s)
        is_pair = merged.pair >= 0
        places = merged.pair[is_pair]
        kinds = self._kinds(merged, pairs)
        evidence = reasons(
            pairs,
            _by_pair(kinds, merged.pair, len(pairs)),
            self._matches,
            tree_t,
            tree_s,
            (matcher.teacher.sketches, matcher.student.sketches) if matcher.blocks.has_weights else None,
        )
        confidence = np.full(len(kinds), UNPAIRED)
        confidence[is_pair] = own_confidences(pairs, self._matches)[places]
        certain = np.zeros(len(kinds), bool)
        certain[is_pair] = np.array([link.how == "pin" for link in pairs], bool)[places]
        nested = nested_confidences(confidence.tolist(), merged.parent, is_pair.tolist(), certain.tolist())
        groups = _groups(merged.teacher, merged.student)
        rows = [
            Row(teacher, student, parent, kind, stated, evidence[pair] if pair >= 0 else (), group, -1, (), children)
            for teacher, student, parent, kind, stated, pair, group, children in zip(
                merged.teacher, merged.student, merged.parent, kinds, nested, merged.pair.tolist(), groups,
                merged.children, strict=True,
            )
        ]  # fmt: skip
        self._mark_stacks(rows, [pairs[pair] if pair >= 0 else None for pair in merged.pair.tolist()])
        return rows

    def _kinds(self, merged: Merged, pairs: list[Link]) -> list[int]:
        """The kind of each row."""
        nodes = np.array([link[:2] for link in pairs], np.int64).reshape(-1, 2)
        own = own_kinds(self._tree_t, self._tree_s, nodes[:, 0], nodes[:, 1])
        own[[place for place, link in enumerate(pairs) if link.how == "moved"]] = MOVED
        of_row = np.where(np.array(merged.teacher) < 0, INSERTED, DELETED)
        is_pair = merged.pair >= 0
        of_row[is_pair] = own[merged.pair[is_pair]]
        kinds = whole_kinds(of_row.tolist(), merged.parent)
        root = next((place for place, link in enumerate(pairs) if link.how == "root"), -1)
        wrappers = [place for place, link in enumerate(pairs) if link.how == "wrapper"]
        if wrappers and root >= 0:  # a wrapper is what it wraps
            row_of = {pair: row for row, pair in enumerate(merged.pair.tolist())}
            for place in wrappers:
                kinds[row_of[place]] = kinds[row_of[root]]
        return kinds

    def _mark_stacks(self, rows: list[Row], links: list[Link | None]) -> None:
        """Which rows are blocks of which stack, also those that their stack leaves without counterpart; and what would
        fit as well."""
        if not self._matches:
            return
        of_t: dict[int, int] = {}
        of_s: dict[int, int] = {}
        for number, match in enumerate(self._matches):
            of_t.update((self._tree_t.call[element], number) for element in match.teacher.elements)
            of_s.update((self._tree_s.call[element], number) for element in match.student.elements)
        for row, link in zip(rows, links, strict=True):
            if link is None:
                row.stack = of_t.get(row.teacher, -1) if row.student < 0 else of_s.get(row.student, -1)
            elif link.stack >= 0:
                row.stack = link.stack
                if self._matches[link.stack].interchangeable and link.how == "policy":
                    row.alternatives = self._alternatives(link)

    def _alternatives(self, link: Link) -> list[int]:
        match = self._matches[link.stack]
        calls = [self._tree_t.call[element] for element in match.teacher.elements if element != link.teacher]
        return [call for call in calls if call >= 0][:_MOST_ALTERNATIVES]

    def _stack(self, match: StackMatch, matcher: Matcher) -> alignment_pb2.Stack:
        count_t, count_s = len(match.teacher.elements), len(match.student.elements)
        if count_s <= count_t:
            indices = [-1] * count_s
            for a, b in match.pairs:
                indices[b] = a
        else:
            indices = [-1] * count_t
            for a, b in match.pairs:
                indices[a] = b
        return alignment_pb2.Stack(
            teacher_path=self._tree_t.path[match.teacher.node],
            student_path=self._tree_s.path[match.student.node],
            teacher_blocks=count_t,
            student_blocks=count_s,
            policy=match.policy,
            indices=indices,
            choices=list(POLICIES) if count_t != count_s else [],
            interchangeable=match.interchangeable,
        )

    # ---- reading

    @cached_property
    def pairs(self) -> Table:
        """The rows as a table, columns as in ``records.schema.ALIGNMENT_PAIRS``."""
        pool = StringPool()
        table = self._pairs_proto(pool)
        return Table.from_proto(table, Strings(pool.to_proto()), ALIGNMENT_PAIRS)

    @cached_property
    def operator_pairs(self) -> OperatorPairs:
        """Pairs and leftovers of operators inside paired calls."""
        seen_t: set[int] = set()
        seen_s: set[int] = set()
        paired = []
        for number, row in enumerate(self.rows):
            if row.teacher < 0 or row.student < 0 or row.teacher in seen_t or row.student in seen_s:
                continue
            seen_t.add(row.teacher)
            seen_s.add(row.student)
            paired.append((number, row.teacher, row.student))
        with collection_paused():
            return align_operators(self.teacher, self.student, paired)

    def module_pairs(self) -> dict[str, list[str]]:
        """Student path -> teacher paths, in the student's order of execution; others are absent."""
        found: dict[str, list[str]] = {}
        ranked = sorted(
            (row for row in self.rows if row.teacher >= 0 and row.student >= 0),
            key=lambda row: (row.student, self._is_mixed(row), -row.confidence, row.teacher),
        )
        for row in ranked:
            path = self.teacher.call_path(row.teacher)
            listed = found.setdefault(self.student.call_path(row.student), [])
            if path not in listed:
                listed.append(path)
        return found

    def _is_mixed(self, row: Row) -> bool:
        """Whether a row pairs a leaf with a composite that stands for it."""
        return bool(self.teacher.call_children[row.teacher]) != bool(self.student.call_children[row.student])

    def summary(self) -> str:
        """One sentence a person could say aloud; ratios are student / teacher."""
        return sentence(
            self.rows,
            self._outer_stacks(),
            self.teacher,
            self.student,
            self._widths(),
            self._stage_level(),
            [edit.text for edit in self._shared],
            self._functions.keys(),
        )

    def _widths(self) -> list[tuple[int, int]]:
        """Widths of the outermost pairs of stacks, teacher's and student's."""
        found = []
        for match in self._matches:
            width_t = self._tree_t.extent[match.teacher.last].width
            width_s = self._tree_s.extent[match.student.last].width
            if width_t and width_s and not self._inside_block(match):
                found.append((width_t, width_s))
        return found

    def _outer_stacks(self) -> list[alignment_pb2.Stack]:
        return [stack for stack, match in zip(self.stacks, self._matches, strict=True) if not self._inside_block(match)]

    def _stage_level(self) -> list[tuple[str, str]]:
        """(teacher path, student path) of what is paired as stages only."""
        return [
            (self.teacher.call_path(row.teacher), self.student.call_path(row.student))
            for row in self.rows
            if row.evidence and row.evidence[0].startswith("ends the same stage")
        ]

    def _inside_block(self, match: StackMatch) -> bool:
        return any(
            self._tree_t.contains(element, match.teacher.first)
            for other in self._matches
            if other is not match
            for element in other.teacher.elements
            if element != match.teacher.first
        )

    @collection_paused()
    def to_proto(self) -> alignment_pb2.Alignment:
        """The wire message."""
        pool = StringPool()
        operators = self.operator_pairs
        message = alignment_pb2.Alignment(
            summary=self.summary(),
            teacher=self.teacher.name,
            student=self.student.name,
            teacher_totals=self.teacher.header.totals,
            student_totals=self.student.header.totals,
            policy=self.policy if isinstance(self.policy, str) else _default_policy(self.policy),
            counts=self.counts,
            edits=self.edits,
            stacks=self.stacks,
            pairs=self._pairs_proto(pool),
            operator_pairs=encode_table("operator_pairs", ALIGNMENT_OPERATOR_PAIRS, vars(operators), pool),
        )
        message.strings.CopyFrom(pool.to_proto())
        return message

    def _pairs_proto(self, pool: StringPool) -> Any:
        rows = self.rows
        return encode_table(
            "pairs",
            ALIGNMENT_PAIRS,
            {
                "teacher": [row.teacher for row in rows],
                "student": [row.student for row in rows],
                "parent": [row.parent for row in rows],
                "kind": [row.kind for row in rows],
                "confidence": [row.confidence for row in rows],
                "evidence": [row.evidence for row in rows],
                "group": [row.group for row in rows],
                "stack": [row.stack for row in rows],
                "alternatives": [row.alternatives for row in rows],
            },
            pool,
        )

    # ---- changing

    def pin(self, student_path: str, teacher_path: str | Sequence[str] | None) -> Alignment:
        """The alignment with one pin more (or changed); None for no counterpart."""
        return Alignment(self.teacher, self.student, self.policy, {**self.pins, student_path: teacher_path})

    def unpin(self, student_path: str) -> Alignment:
        """The alignment without a pin.

        Raises:
            KeyError: When the path is not pinned.
        """
        if student_path not in self.pins:
            raise KeyError(f"{student_path!r} is not pinned; pinned are {sorted(self.pins) or 'no modules'}")
        rest = {path: target for path, target in self.pins.items() if path != student_path}
        return Alignment(self.teacher, self.student, self.policy, rest)

    def __repr__(self) -> str:
        return f"Alignment({self.teacher.name!r} → {self.student.name!r}: {self.summary()})"


def _by_pair(values: Sequence[int], pair: Array, count: int) -> list[int]:
    """Values of rows, in the order of the pairs that rows show."""
    found = np.zeros(count, np.int64)
    is_pair = pair >= 0
    found[pair[is_pair]] = np.array(values, np.int64)[is_pair]
    listed: list[int] = found.tolist()
    return listed


def _groups(teacher: Sequence[int], student: Sequence[int]) -> list[int]:
    """Number the connected sets of rows that share a call; -1 for rows that share none."""
    found = [-1] * len(teacher)
    of_call: dict[tuple[str, int], list[int]] = defaultdict(list)
    for side, calls in (("t", teacher), ("s", student)):
        several = {call for call, count in Counter(calls).items() if count > 1 and call >= 0}
        for row, call in enumerate(calls):
            if call in several:
                of_call[side, call].append(row)
    group = 0
    for first in sorted({row for rows in of_call.values() for row in rows}):
        if found[first] >= 0:
            continue
        work = [first]
        while work:
            row = work.pop()
            if found[row] < 0:
                found[row] = group
                work += [*of_call.get(("t", teacher[row]), ()), *of_call.get(("s", student[row]), ())]
        group += 1
    return found


def _check_policy(policy: Policy) -> None:
    names = [policy] if isinstance(policy, str) else [name for name in policy.values() if isinstance(name, str)]
    for name in names:
        if name not in POLICIES:
            raise PolicyError(f"no policy {name!r}; use {', '.join(POLICIES)}, or a list of indices for a stack")


def _default_policy(policy: Mapping[str, str | Sequence[int]]) -> str:
    default = policy.get("", policy.get("*", "copy"))
    return default if isinstance(default, str) else "custom"
