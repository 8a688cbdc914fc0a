"""A head with less in it: some keys hidden, or only the largest probabilities of each query, as a reader asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.records.attention_details import StoredHead
from tb_plugin_structure.records.table import Array

_SORTING = 8
"""About how many times longer a value takes that has to be sorted among its row."""


class FilteredHead(StoredHead):
    """Hidden values are NaN, which :meth:`pooled` passes over.

    Args:
        head: The head as it is stored.
        hidden: Key positions to leave out.
        share: Of each query, what is shown: its largest probabilities among the keys that are not hidden, until they
            hold this share of those keys' mass; 1 for all of them.
    """

    def __init__(self, head: StoredHead, hidden: Sequence[int], share: float) -> None:
        self.queries, self.keys = head.queries, head.keys
        self.guarantee, self.rows_stored = head.guarantee, head.rows_stored
        self._head, self._share = head, share
        self._hidden = np.unique(np.asarray([key for key in hidden if 0 <= key < head.keys], np.int64))

    def cost(self, rows: int, columns: int) -> int:
        whole_rows = self._share < 1
        return self._head.cost(rows, self.keys) + _SORTING * rows * self.keys if whole_rows else rows * columns

    def window(self, rows: slice, columns: slice) -> Array:
        if self._share >= 1:
            values = np.array(self._head.window(rows, columns), np.float32)
            inside = self._hidden[(self._hidden >= columns.start) & (self._hidden < columns.stop)]
            values[:, inside - columns.start] = np.nan
            return values
        values = np.array(self._head.window(rows, slice(0, self.keys)), np.float32)
        values[:, self._hidden] = np.nan
        known = np.nan_to_num(values, nan=0.0)
        ordered = -np.sort(-known, axis=1)
        mass = np.cumsum(ordered, axis=1, dtype=np.float64)
        # The first value of those that are no longer needed, as seen from the largest on.
        needed = (mass < self._share * mass[:, -1:] - 1e-6).sum(1)
        least = np.take_along_axis(ordered, np.minimum(needed, self.keys - 1)[:, None], 1)
        values[(known < least) | (known <= 0)] = np.nan
        result: Array = values[:, columns]
        return result
