"""Values between operators, from values between kernels, with numpy: a large model has a million of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Lists = tuple[Any, Array]
"""A list column: all values back to back, and where each row's begin."""


class ValueFlow:
    """Values between operators, from values between kernels."""

    def __init__(self, producers: Array, numbers: Sequence[int], operator_of: Array, operators: int) -> None:
        operator_of_kernel = np.full(int(producers.max(initial=-1)) + 2, -1, np.int64)
        inside = [(position, kernel) for position, kernel in enumerate(numbers) if kernel < len(operator_of_kernel) - 1]
        positions = np.array([position for position, _ in inside], np.int64)
        operator_of_kernel[np.array([kernel for _, kernel in inside], np.int64)] = operator_of[positions]
        self.made_in = operator_of_kernel[producers]  # a producer of -1 reads the last entry, which is -1
        self.operator_of = operator_of
        self.operators = operators

    def _operators(self, lists: Lists) -> Array:
        """For each entry of a kernel list column, the operator of its kernel."""
        return np.repeat(self.operator_of, np.diff(lists[1]))

    def read_by_operators(self, reads: Lists, also: Lists) -> Lists:
        """Values that an operator reads and did not make, in the order in which it reads them."""
        rows = np.concatenate([reads[0], also[0]])
        operators = np.concatenate([self._operators(reads), self._operators(also)])
        order = np.argsort(operators, kind="stable")
        rows, operators = rows[order], operators[order]
        foreign = self.made_in[rows] != operators
        return self._grouped(operators[foreign], rows[foreign])

    def made_by_operators(
        self, made: Lists, reads: Lists, also: Lists, returned: Array, last: Sequence[Sequence[int]]
    ) -> Lists:
        """Values that an operator makes and others read or a module returns; its last results if there are none."""
        wanted = np.zeros(len(self.made_in), bool)
        for lists in (reads, also):
            readers = self._operators(lists)
            wanted[lists[0][self.made_in[lists[0]] != readers]] = True
        wanted[returned] = True
        operators = self._operators(made)
        chosen = wanted[made[0]] & (self.made_in[made[0]] == operators)
        found = np.bincount(operators[chosen], minlength=self.operators)
        empty = np.flatnonzero(found == 0)
        extra = [(operator, row) for operator in empty.tolist() for row in last[operator]]
        operators = np.concatenate([operators[chosen], np.array([o for o, _ in extra], np.int64)])
        rows = np.concatenate([made[0][chosen], np.array([row for _, row in extra], np.int64)])
        order = np.argsort(operators, kind="stable")
        return self._grouped(operators[order], rows[order])

    def _grouped(self, operators: Array, rows: Array) -> Lists:
        """List column from sorted (operator, row) pairs, each pair once."""
        if len(rows):
            key = operators * (len(self.made_in) + 1) + rows
            first = np.sort(np.unique(key, return_index=True)[1])
            operators, rows = operators[first], rows[first]
        offsets = np.zeros(self.operators + 1, np.int64)
        np.cumsum(np.bincount(operators, minlength=self.operators), out=offsets[1:])
        return rows, offsets


def list_column(lists: Sequence[Iterable[int]]) -> Lists:
    """A list column from the lists of all rows."""
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(row) for row in lists], out=offsets[1:])  # type: ignore[arg-type]
    return np.fromiter(chain.from_iterable(lists), np.int64, int(offsets[-1])), offsets


def renumbered(local: Array, lists: Lists) -> Lists:
    """A list column of values with other numbers: `local` has the new one of each."""
    return local[lists[0]], lists[1]


def sums(values: Array, starts: Array) -> Array:
    """Sum of each operator's kernels; unknown (NaN) when one of them is."""
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0)
