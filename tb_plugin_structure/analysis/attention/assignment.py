"""The assignment problem: match rows to columns one to one at the least total cost, for many tables at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.records.table import Array

Matching = list[tuple[int, int]]


def assign(cost: Array) -> Matching:
    """Pairs (row, column), sorted by row, of a one-to-one matching of the smaller side at the least total cost.

    Args:
        cost: [rows, columns]. NaN and infinity mean "may not be matched": such pairs are left out of the result.
    """
    cost = np.asarray(cost, np.float64)
    if cost.ndim != 2:
        raise ValueError(f"cost has {cost.ndim} axes, expected 2")
    return assign_many(cost[None])[0]


def assign_many(costs: Array) -> list[Matching]:
    """:func:`assign` of every table of [tables, rows, columns].

    The Hungarian method with potentials and shortest augmenting paths (Jonker and Volgenant, "A shortest augmenting
    path algorithm for dense and sparse linear assignment problems", Computing 38, 1987), each step taken in all tables
    at once: the layers of two models give thousands of small tables.
    """
    costs = np.asarray(costs, np.float64)
    tables, rows, columns = costs.shape
    if rows > columns:
        return [sorted((row, column) for column, row in pairs) for pairs in assign_many(costs.transpose(0, 2, 1))]
    allowed = np.isfinite(costs)
    if not allowed.any():
        return [[] for _ in range(tables)]
    known = np.where(allowed, costs, 0.0)
    span = known.max((1, 2)) - known.min((1, 2)) + 1.0
    filled = np.where(allowed, costs, (known.max((1, 2)) + span * (rows + 1))[:, None, None])
    row_of = _with_scipy(filled)
    if row_of is None:
        row_of = _augmented(filled)
    row_of[~allowed[np.arange(tables)[:, None], np.maximum(row_of, 0), np.arange(columns)]] = -1
    return [_pairs(row_of[table]) for table in range(tables)]


def _with_scipy(costs: Array) -> Array | None:
    """As :func:`_augmented`, several times faster, where SciPy happens to be installed; None where it is not."""
    try:
        from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]
    except ImportError:
        return None
    row_of = np.full((costs.shape[0], costs.shape[2]), -1, np.int64)
    for table, cost in enumerate(costs):
        rows, columns = linear_sum_assignment(cost)
        row_of[table, columns] = rows
    return row_of


def _augmented(cost: Array) -> Array:
    """[tables, columns]: the row that each column is matched to, -1 for none; rows <= columns, all costs finite."""
    tables, rows, columns = cost.shape
    row_of = np.full((tables, columns + 1), -1, np.int64)  # column `columns` stands for the row that is being placed
    row_potential = cost.min(2)
    column_potential = np.zeros((tables, columns + 1))
    every = np.arange(tables)
    placed = np.zeros((tables, rows), bool)
    for row in range(rows):  # most rows find their cheapest column free
        cheapest = cost[:, row].argmin(1)
        free = row_of[every, cheapest] < 0
        row_of[every[free], cheapest[free]] = row
        placed[:, row] = free
    for _ in range(int((~placed).sum(1).max(initial=0))):
        # Each table's next row that has no place.
        left = every[(~placed).any(1)]
        waiting = (~placed[left]).argmax(1)
        placed[left, waiting] = True
        row_of[left, columns] = waiting
        shortest = np.full((tables, columns), np.inf)
        previous = np.full((tables, columns), columns, np.int64)
        done = np.zeros((tables, columns + 1), bool)
        column = np.full(tables, columns)
        searching = left  # tables whose path has not reached a free column yet
        while len(searching):
            at = column[searching]
            done[searching, at] = True
            current = row_of[searching, at]
            is_open = ~done[searching, :columns]
            reduced = (
                cost[searching, current]
                - row_potential[searching, current][:, None]
                - column_potential[searching, :columns]
            )
            better = is_open & (reduced < shortest[searching])
            shortest[searching] = np.where(better, reduced, shortest[searching])
            previous[searching] = np.where(better, at[:, None], previous[searching])
            candidates = np.where(is_open, shortest[searching], np.inf)
            following = candidates.argmin(1)
            step = candidates[np.arange(len(searching)), following]
            # Potentials of what was reached change by the step; every row in `row_of` stands there once.
            reached = np.where(done[searching], step[:, None], 0.0)
            which, where = np.nonzero(done[searching])
            row_potential[searching[which], row_of[searching[which], where]] += step[which]
            column_potential[searching] -= reached
            shortest[searching] -= np.where(is_open, step[:, None], 0.0)
            column[searching] = following
            searching = searching[row_of[searching, following] >= 0]
        walking = left
        while len(walking):
            at = column[walking]
            before = previous[walking, at]
            row_of[walking, at] = row_of[walking, before]
            column[walking] = before
            walking = walking[before != columns]
    return row_of[:, :columns]


def _pairs(row_of: Sequence[int] | Array) -> Matching:
    return sorted((int(row), column) for column, row in enumerate(row_of) if row >= 0)
