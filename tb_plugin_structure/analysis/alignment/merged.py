"""The merged tree: a row per pair or unpaired call, in display order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


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


def merge(
    pairs: list[tuple[int, int]], teacher_parent: list[int], student_parent: list[int]
) -> tuple[list[Row], dict[tuple[int, int], int]]:
    """Build the rows.

    A pair stands where the student has it; what only the teacher has stands where the teacher ran it, after the row
    of the call that the teacher ran before it.

    Args:
        pairs: (teacher call, student call), the most important pair of a call first.
        teacher_parent: Parent call of each teacher call, -1 for the model.
        student_parent: The same of the student.

    Returns:
        Rows, parents before children, and the row of each pair.
    """
    main_t: dict[int, int] = {}
    main_s: dict[int, int] = {}
    rows = [Row(teacher, student) for teacher, student in pairs]
    for number, row in enumerate(rows):
        main_t.setdefault(row.teacher, number)
        main_s.setdefault(row.student, number)
    for call in range(len(student_parent)):
        if call not in main_s:
            main_s[call] = len(rows)
            rows.append(Row(-1, call))
    for call in range(len(teacher_parent)):
        if call not in main_t:
            main_t[call] = len(rows)
            rows.append(Row(call, -1))
    inside: defaultdict[int, list[int]] = defaultdict(list)
    only_t: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row.student >= 0:
            above = student_parent[row.student]
            row.parent = main_s[above] if above >= 0 else -1
            if above < 0 and row.teacher >= 0 and teacher_parent[row.teacher] >= 0:
                row.parent = main_t[teacher_parent[row.teacher]]
            inside[row.parent].append(number)
        else:
            above = teacher_parent[row.teacher]
            row.parent = main_t[above] if above >= 0 else -1
            only_t[row.parent].append(number)
    siblings: defaultdict[int, list[int]] = defaultdict(list)
    for call, above in enumerate(teacher_parent):
        siblings[above].append(call)
    for parent, numbers in inside.items():
        if len(numbers) > 1:
            numbers.sort(key=lambda number: (rows[number].student, rows[number].teacher))
        rank = {number: place for place, number in enumerate(numbers)} if parent in only_t else {}
        inside[parent] = _interleave(numbers, rank, only_t.pop(parent, []), rows, main_t, siblings, teacher_parent)
    for parent, numbers in only_t.items():
        inside[parent] = sorted(numbers, key=lambda number: rows[number].teacher)
    order: list[int] = []
    work = list(reversed(inside[-1]))
    while work:
        number = work.pop()
        order.append(number)
        work.extend(reversed(inside.get(number, [])))
    place = {old: new for new, old in enumerate(order)}
    result = [rows[number] for number in order]
    for old, row in zip(order, result, strict=True):
        row.parent = place[row.parent] if row.parent >= 0 else -1
        row.children = tuple([place[number] for number in inside.get(old, ())])
    return result, {(row.teacher, row.student): new for new, row in enumerate(result)}


def _interleave(
    numbers: list[int],
    rank: dict[int, int],
    extra: list[int],
    rows: list[Row],
    main_t: dict[int, int],
    siblings: dict[int, list[int]],
    teacher_parent: list[int],
) -> list[int]:
    """Put rows that only the teacher has after the row of their elder sibling."""
    if not extra:
        return numbers
    after: defaultdict[int, list[int]] = defaultdict(list)
    wanted = {rows[number].teacher: number for number in extra}
    for above in sorted({teacher_parent[call] for call in wanted}):
        slot = -1
        for call in siblings[above]:
            number = wanted.get(call)
            if number is not None:
                after[slot].append(number)
            else:
                slot = rank.get(main_t[call], slot)
    result = list(after[-1])
    for place, number in enumerate(numbers):
        result.append(number)
        result.extend(after[place])
    return result
