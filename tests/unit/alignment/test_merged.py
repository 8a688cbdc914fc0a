"""The order of the merged tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin_structure.analysis.alignment.merged import merge


def _parents(*parents: int) -> np.ndarray:
    return np.array(parents, np.int64)


def _nested(pairs: list[tuple[int, int]], teacher: np.ndarray, student: np.ndarray) -> list[tuple[int, int, int]]:
    """(teacher, student, row of what it lies in) of all rows in order."""
    merged = merge(pairs, teacher, student)
    return list(zip(merged.teacher, merged.student, merged.parent, strict=True))


def test_what_only_the_teacher_has_stands_in_the_students_group_around_it() -> None:
    # Teacher: 1, 2, 3, 4 side by side; the student groups the counterparts of 1 and 3 in its call 1.
    found = _nested([(0, 0), (1, 2), (3, 3), (4, 4)], _parents(-1, 0, 0, 0, 0), _parents(-1, 0, 1, 1, 0))
    assert found == [(0, 0, -1), (-1, 1, 0), (1, 2, 1), (2, -1, 1), (3, 3, 1), (4, 4, 0)]


def test_what_stands_at_the_edge_of_a_group_does_not_belong_to_it() -> None:
    found = _nested([(0, 0), (1, 2), (3, 3)], _parents(-1, 0, 0, 0), _parents(-1, 0, 1, 0))
    assert found == [(0, 0, -1), (-1, 1, 0), (1, 2, 1), (2, -1, 0), (3, 3, 0)]


@st.composite
def _trees(draw: st.DrawFn) -> tuple[list[tuple[int, int]], np.ndarray, np.ndarray]:
    sizes = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    trees = [_parents(-1, *(draw(st.integers(0, call - 1)) for call in range(1, size))) for size in sizes]
    calls = [st.integers(0, size - 1) for size in sizes]
    pairs = draw(st.lists(st.tuples(*calls), max_size=14, unique=True))
    return pairs, trees[0], trees[1]


@given(_trees())
def test_every_call_is_placed(drawn: tuple[list[tuple[int, int]], np.ndarray, np.ndarray]) -> None:
    pairs, teacher, student = drawn
    merged = merge([(0, 0), *(pair for pair in pairs if pair != (0, 0))], teacher, student)
    assert set(merged.teacher) - {-1} == set(range(len(teacher)))
    assert set(merged.student) - {-1} == set(range(len(student)))
    assert all(above < row for row, above in enumerate(merged.parent))
