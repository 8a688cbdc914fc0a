"""Numbers in the place of values: equal values get equal numbers, so that arrays can be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

import numpy as np

from tb_plugin_structure.records.table import Array


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
    number = np.unique(length, return_inverse=True)[1].ravel().astype(np.int64)
    for place in range(int(length.max()) if len(length) else 0):
        longer = np.flatnonzero(length > place)
        # Lists that agree so far are told apart by their next value.
        value = np.unique(values[begin[longer] + place], return_inverse=True)[1].ravel().astype(np.int64)
        both = np.zeros(len(number), np.int64)
        both[longer] = value + 1
        number = np.unique(number * (int(value.max()) + 2) + both, return_inverse=True)[1].ravel().astype(np.int64)
    return number


def first_rows(numbers: Array) -> Array:
    """For each number from 0 the first row that has it."""
    found: Array = np.unique(numbers, return_index=True)[1]
    return found


def first_values(values: Array, offsets: Array) -> Array:
    """The first value of each list; -1 where a list is empty."""
    begin, end = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    found = np.full(len(begin), -1, np.int64)
    some = end > begin
    found[some] = values[begin[some]]
    return found
