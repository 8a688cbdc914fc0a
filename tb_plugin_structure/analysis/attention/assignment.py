"""The assignment problem: match rows to columns one to one at the least total cost."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.records.table import Array


def assign(cost: Array) -> list[tuple[int, int]]:
    """Pairs (row, column), sorted by row, of a one-to-one matching of the smaller side at the least total cost.

    The Hungarian method with potentials and shortest augmenting paths (Jonker and Volgenant, "A shortest augmenting
    path algorithm for dense and sparse linear assignment problems", Computing 38, 1987); O(n² m) for n <= m.

    Args:
        cost: [rows, columns]. NaN and infinity mean "may not be matched": such pairs are left out of the result.
    """
    cost = np.asarray(cost, np.float64)
    if cost.ndim != 2:
        raise ValueError(f"cost has {cost.ndim} axes, expected 2")
    if cost.shape[0] > cost.shape[1]:
        return sorted((row, column) for column, row in assign(cost.T))
    rows, columns = cost.shape
    allowed = np.isfinite(cost)
    if not allowed.any():
        return []
    span = float(cost[allowed].max() - cost[allowed].min()) + 1.0
    filled = np.where(allowed, cost, float(cost[allowed].max()) + span * (rows + 1))
    row_of = np.full(columns + 1, -1, np.int64)  # column `columns` stands for the row that is being placed
    row_potential, column_potential = np.zeros(rows), np.zeros(columns + 1)
    for row in range(rows):
        row_of[columns] = row
        shortest = np.full(columns, np.inf)
        previous = np.full(columns, columns, np.int64)
        done = np.zeros(columns + 1, bool)
        column = columns
        while row_of[column] >= 0:
            done[column] = True
            current = row_of[column]
            open_columns = ~done[:columns]
            reduced = filled[current] - row_potential[current] - column_potential[:columns]
            better = open_columns & (reduced < shortest)
            shortest[better] = reduced[better]
            previous[better] = column
            candidates = np.where(open_columns, shortest, np.inf)
            following = int(candidates.argmin())
            step = candidates[following]
            reached = np.flatnonzero(done)
            row_potential[row_of[reached]] += step
            column_potential[reached] -= step
            shortest[open_columns] -= step
            column = following
        while column != columns:
            row_of[column] = row_of[previous[column]]
            column = int(previous[column])
    return sorted(
        (int(row_of[column]), column)
        for column in range(columns)
        if row_of[column] >= 0 and allowed[row_of[column], column]
    )
