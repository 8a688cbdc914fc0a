"""Monotone alignment of two sequences by dynamic programming: order is kept, gaps are free."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from tb_plugin_structure.records.table import Array


def monotone_pairs(scores: Array) -> list[tuple[int, int]]:
    """The pairs (i, j), both rising, that maximise the sum of ``scores[i, j]``; only positive scores are paired.

    Among equal sums the pairs nearest the end win: published pairs of feature maps are anchored at stage ends.
    O(n m) time and memory; rows are handled with numpy.
    """
    rows, columns = scores.shape
    best = np.zeros((rows + 1, columns + 1))
    positive = np.where(scores > 0, scores, -1.0).astype(np.float64)
    for i in range(rows):
        above = best[i]
        np.maximum.accumulate(np.maximum(above[1:], above[:-1] + positive[i]), out=best[i + 1, 1:])
        np.maximum(best[i + 1], above, out=best[i + 1])
    pairs: list[tuple[int, int]] = []
    # Python lists are read several times faster than single numpy cells; large tables stay arrays to save memory.
    small = rows * columns <= 250_000
    table, gains = (best.tolist(), positive.tolist()) if small else (best, positive)
    i, j = rows, columns
    while i > 0 and j > 0:
        gain = gains[i - 1][j - 1]
        value = table[i][j]
        if gain > 0 and value - 1e-9 <= table[i - 1][j - 1] + gain:
            pairs.append((i - 1, j - 1))
            i, j = i - 1, j - 1
        elif value <= table[i][j - 1] + 1e-9:
            j -= 1
        else:
            i -= 1
    pairs.reverse()
    return pairs


_FEW = 4
"""Matrices of about one size up to which each is solved by itself."""


def monotone_pairs_of_many(flat: Array, heights: Array, widths: Array) -> tuple[Array, Array, Array]:
    """:func:`monotone_pairs` of many matrices at once.

    Args:
        flat: The cells of all matrices, one matrix after the other, row by row.
        heights: Rows of each matrix.
        widths: Columns of each matrix.

    Returns:
        (matrix, row, column) of each pair, by matrix and row.
    """
    begins = np.cumsum(heights * widths) - heights * widths
    # Matrices of about one size are solved together.
    sizes = np.ceil(np.log2(heights)).astype(np.int64) * 64 + np.ceil(np.log2(widths)).astype(np.int64)
    found: list[Array] = [np.zeros((3, 0), np.int64)]
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        if len(which) <= _FEW:
            for k in which.tolist():
                h, w = int(heights[k]), int(widths[k])
                pairs = monotone_pairs(flat[begins[k] : begins[k] + h * w].reshape(h, w))
                found.append(np.array([(k, i, j) for i, j in pairs], np.int64).reshape(-1, 3).T)
        else:
            found.append(_solved_together(flat, begins[which], heights[which], widths[which], which))
    pairs_of_all = np.concatenate(found, axis=1)
    order = np.lexsort((pairs_of_all[1], pairs_of_all[0]))
    matrix, row, column = pairs_of_all[:, order]
    return matrix, row, column


def _solved_together(flat: Array, begins: Array, heights: Array, widths: Array, names: Array) -> Array:
    """Pairs [3, pairs] of matrices that are padded to one size."""
    rows, columns = np.arange(int(heights.max())), np.arange(int(widths.max()))
    inside = (rows[None, :, None] < heights[:, None, None]) & (columns[None, None, :] < widths[:, None, None])
    places = begins[:, None, None] + rows[None, :, None] * widths[:, None, None] + columns[None, None, :]
    positive = np.where(inside, flat[np.where(inside, places, 0)], -1.0)
    positive = np.where(positive > 0, positive, -1.0)
    best = np.zeros((len(begins), len(rows) + 1, len(columns) + 1))
    for i in rows:
        above = best[:, i]
        best[:, i + 1, 1:] = np.maximum.accumulate(np.maximum(above[:, 1:], above[:, :-1] + positive[:, i]), axis=1)
    found: list[Array] = [np.zeros((3, 0), np.int64)]
    k, i, j = np.arange(len(begins)), heights.copy(), widths.copy()
    while len(k):
        gain, value = positive[k, i - 1, j - 1], best[k, i, j]
        taken = (gain > 0) & (value - 1e-9 <= best[k, i - 1, j - 1] + gain)
        left = ~taken & (value <= best[k, i, j - 1] + 1e-9)
        found.append(np.stack([names[k[taken]], i[taken] - 1, j[taken] - 1]))
        i, j = i - ~left, j - (taken | left)
        going = (i > 0) & (j > 0)
        k, i, j = k[going], i[going], j[going]
    return np.concatenate(found, axis=1)


def longest_rising(values: list[int]) -> list[int]:
    """Positions of a longest strictly rising subsequence. O(n log n)."""
    tails: list[int] = []
    tail_positions: list[int] = []
    before = [-1] * len(values)
    for position, value in enumerate(values):
        place = bisect_left(tails, value)
        if place == len(tails):
            tails.append(value)
            tail_positions.append(position)
        else:
            tails[place] = value
            tail_positions[place] = position
        before[position] = tail_positions[place - 1] if place else -1
    found: list[int] = []
    position = tail_positions[-1] if tail_positions else -1
    while position >= 0:
        found.append(position)
        position = before[position]
    found.reverse()
    return found


def compatible(sure: list[tuple[int, int]], proposed: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`sure` and those of `proposed` that neither cross nor share a unit with them; both rise on both sides."""
    kept = []
    for i, j in proposed:
        place = bisect_left(sure, (i, -1))
        after = place == len(sure) or (sure[place][0] > i and sure[place][1] > j)
        before = place == 0 or sure[place - 1][1] < j
        if after and before:
            kept.append((i, j))
    return sorted([*sure, *kept])


def unique_anchors(first: list[int], second: list[int]) -> list[tuple[int, int]]:
    """Pairs of positions whose value occurs once in each sequence, thinned to a rising chain (patience anchors)."""
    once_first = _once(first)
    once_second = _once(second)
    shared = sorted((once_first[value], once_second[value]) for value in once_first.keys() & once_second.keys())
    kept = longest_rising([j for _, j in shared])
    return [shared[position] for position in kept]


def _once(values: list[int]) -> dict[int, int]:
    places: dict[int, int] = {}
    repeated: set[int] = set()
    for position, value in enumerate(values):
        if value in places:
            repeated.add(value)
        places[value] = position
    for value in repeated:
        del places[value]
    return places
