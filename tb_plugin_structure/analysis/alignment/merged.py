"""The merged tree: a row per pair or unpaired call, in display order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.records.table import Array


@dataclass(slots=True)
class Row:
    """A row of the merged tree. teacher, student: rows of module_calls, -1 where the side has none."""

    teacher: int
    student: int
    parent: int = -1
    kind: int = 0
    confidence: float = 0.0
    evidence: Sequence[str] = ()
    group: int = -1
    stack: int = -1
    alternatives: Sequence[int] = ()
    children: Sequence[int] = ()


@dataclass
class Merged:
    """Columns of the merged tree, parents before children.

    teacher, student: calls, -1 for none.
    parent: row of what each lies in.
    children: rows of what lies in each.
    pair: position of each row's pair in the list it was made from; -1 for what only one side has.
    """

    teacher: list[int]
    student: list[int]
    parent: list[int]
    children: list[list[int]]
    pair: Array


def merge(pairs: Sequence[tuple[int, int]], teacher_parent: Array, student_parent: Array) -> Merged:
    """Order pairs and what only one side has.

    A pair stands where the student has it; what only the teacher has stands where the teacher ran it, after the row
    of the call that the teacher ran before it.

    Args:
        pairs: (teacher call, student call), the most important pair of a call first.
        teacher_parent: Parent call of each teacher call, -1 for the model.
        student_parent: The same of the student.
    """
    paired_t, paired_s = np.array(pairs, np.int64).reshape(-1, 2).T
    only_s = np.setdiff1d(np.arange(len(student_parent)), paired_s)
    only_t = np.setdiff1d(np.arange(len(teacher_parent)), paired_t)
    teacher = np.concatenate([paired_t, np.full(len(only_s), -1), only_t])
    student = np.concatenate([paired_s, only_s, np.full(len(only_t), -1)])
    main_t, main_s = _main_row(teacher, len(teacher_parent)), _main_row(student, len(student_parent))
    # The last place of each is read by -1: no row, no parent.
    above_t, above_s = np.append(teacher_parent, -1)[teacher], np.append(student_parent, -1)[student]
    follows_s = (student >= 0) & ((above_s >= 0) | (teacher < 0) | (above_t < 0))
    parent = np.where(follows_s, np.append(main_s, -1)[above_s], np.append(main_t, -1)[above_t])
    rank = np.zeros(len(teacher), np.int64)
    with_student = np.flatnonzero(student >= 0)
    rank[with_student[np.lexsort((teacher[with_student], student[with_student]))]] = np.arange(len(with_student)) + 1
    alone = student < 0
    home, after = _places_of_own(teacher_parent, main_t, parent, rank, teacher < 0)
    parent[alone], rank[alone] = home[teacher[alone]], after[teacher[alone]]
    siblings = np.lexsort((teacher, alone, rank, parent))
    begin = np.searchsorted(parent[siblings], np.arange(-1, len(teacher) + 1)).tolist()
    listed: list[int] = siblings.tolist()
    order: list[int] = []
    work = listed[begin[0] : begin[1]][::-1]
    while work:
        row = work.pop()
        order.append(row)
        if begin[row + 1] < begin[row + 2]:
            work.extend(reversed(listed[begin[row + 1] : begin[row + 2]]))
    place = np.full(len(teacher) + 1, -1, np.int64)
    place[order] = np.arange(len(order))
    moved_parent = place[parent[order]].tolist()
    children: list[list[int]] = [[] for _ in order]
    for row, above in enumerate(moved_parent):
        if above >= 0:
            children[above].append(row)
    pair = np.where(np.arange(len(teacher)) < len(pairs), np.arange(len(teacher)), -1)
    return Merged(teacher[order].tolist(), student[order].tolist(), moved_parent, children, pair[order])


def _main_row(calls: Array, count: int) -> Array:
    """The first row of each call."""
    found = np.full(count, -1, np.int64)
    rows = np.flatnonzero(calls >= 0)[::-1]
    found[calls[rows]] = rows
    return found


def _places_of_own(
    teacher_parent: Array, main: Array, parent: Array, rank: Array, only_student: Array
) -> tuple[Array, Array]:
    """For each teacher call, should it have no counterpart: the row that it lies in, and the rank of the row that it
    follows; 0 for none.

    It lies in its parent's row, unless the student alone groups the siblings around it: then it lies in that group. It
    follows its nearest elder sibling with a counterpart there, or in a group of the student's there.
    """
    by_parent = np.argsort(teacher_parent, kind="stable")
    rows, above = main[by_parent], teacher_parent[by_parent]
    home = np.append(main, -1)[above]
    top = rows.copy()  # each row, or the outermost of the student's groups around it
    while (inside := (parent[top] >= 0) & only_student[parent[top]] & (parent[top] != home)).any():
        top[inside] = parent[top[inside]]
    beside = (rank[rows] > 0) & (parent[top] == home)
    positions = np.arange(len(rows))
    elder = np.maximum.accumulate(np.where(beside, positions, -1))
    younger = np.minimum.accumulate(np.where(beside, positions, len(rows))[::-1])[::-1]
    has_elder = elder >= np.searchsorted(above, above)  # where the siblings begin
    has_both = has_elder & (younger < np.searchsorted(above, above, side="right"))
    before, behind = rows[elder], rows[np.minimum(younger, len(rows) - 1)]
    grouped = has_both & (parent[before] == parent[behind]) & (parent[before] != home)
    lies_in, follows = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
    lies_in[by_parent] = np.where(grouped, parent[before], home)
    follows[by_parent] = np.where(has_elder, rank[np.where(grouped, before, top[elder])], 0)
    return lies_in, follows
