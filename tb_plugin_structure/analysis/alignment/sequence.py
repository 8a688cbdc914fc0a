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
