"""Numbers in the place of values: equal values get equal numbers, so that arrays can be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

import numpy as np

from tb_plugin_structure.records.table import Array

_MOST_SPREAD = 8
"""Numbers are counted and not sorted while their range is at most so many times their count."""


class Interner:
    """Numbers for hashable values; shared by the two models, so that numbers compare across them.

    Values of different subjects ("label", "extent") are numbered apart.
    """

    def __init__(self) -> None:
        self._numbers: defaultdict[str, dict[Hashable, int]] = defaultdict(dict)

    def __call__(self, subject: str, value: Hashable) -> int:
        known = self._numbers[subject]
        return known.setdefault(value, len(known))

    def each(self, subject: str, values: Iterable[Hashable]) -> Array:
        """The numbers of several values."""
        known = self._numbers[subject]
        listed = values if isinstance(values, list) else list(values)
        for value in dict.fromkeys(listed):
            known.setdefault(value, len(known))
        return np.fromiter(map(known.__getitem__, listed), np.int64, len(listed))


def ranked(values: Array) -> tuple[Array, Array]:
    """The distinct values of whole numbers in ascending order, and the place of each value among them.

    What ``np.unique`` gives, without sorting where the numbers lie close together.
    """
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low > _MOST_SPREAD * len(values):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place.ravel()
    shifted = values.astype(np.int64) - low
    occurs = np.zeros(high - low + 1, bool)
    occurs[shifted] = True
    return np.flatnonzero(occurs) + low, (np.cumsum(occurs) - 1)[shifted]


def number_lists(values: Array, offsets: Array, rows: Array | None = None) -> Array:
    """A number for each list of a list column; equal lists get equal numbers, from 0, without gaps.

    Args:
        values: The values of all lists, one list after the other.
        offsets: Where lists begin: list r is [offsets[r], offsets[r + 1]).
        rows: The lists to number; all by default.
    """
    offsets = offsets.astype(np.int64)
    begin = offsets[:-1] if rows is None else offsets[rows]
    length = np.diff(offsets) if rows is None else offsets[rows + 1] - begin
    number = ranked(length)[1]
    for place in range(int(length.max()) if len(length) else 0):
        longer = np.flatnonzero(length > place)
        # Lists that agree so far are told apart by their next value.
        value = ranked(values[begin[longer] + place])[1]
        both = np.zeros(len(number), np.int64)
        both[longer] = value + 1
        number = ranked(number * (int(value.max()) + 2) + both)[1]
    return number


def first_rows(numbers: Array) -> Array:
    """For each number from 0 the first row that has it; the numbers have no gaps."""
    found = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    found[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return found


def first_values(values: Array, offsets: Array) -> Array:
    """The first value of each list; -1 where a list is empty."""
    begin, end = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    found = np.full(len(begin), -1, np.int64)
    some = end > begin
    found[some] = values[begin[some]]
    return found
