"""Sums over the subtrees of a module tree in which modules share parameters."""

from __future__ import annotations

from collections.abc import Sequence


def subtree_totals(parents: Sequence[int], owned: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    """For each module, the sum of the sizes of the distinct parameters that it or a module below it owns.

    What several modules own is added at each of them, and taken away again where their ways to the root meet. No set
    of parameters is made for each module: of a deep tree these would take the memory of all parameters times the depth.

    Args:
        parents: Row of each module's parent, which comes before it; -1 for the root.
        owned: Rows of the parameters of each module.
        sizes: Size of each parameter.
    """
    totals = [0] * len(parents)
    owner = [-1] * len(sizes)
    shared: dict[int, set[int]] = {}
    """Parameter -> the modules at or above its owners, for parameters with several of them."""
    for module, rows in enumerate(owned):
        for row in rows:
            totals[module] += sizes[row]
            if owner[row] < 0:
                owner[row] = module
                continue
            if row not in shared:
                shared[row] = set(_way_up(parents, owner[row]))
            way = shared[row]
            above = module
            while above >= 0 and above not in way:
                way.add(above)
                above = parents[above]
            if above >= 0:
                totals[above] -= sizes[row]
    for module in range(len(parents) - 1, 0, -1):
        if parents[module] >= 0:
            totals[parents[module]] += totals[module]
    return totals


def _way_up(parents: Sequence[int], module: int) -> list[int]:
    way = []
    while module >= 0:
        way.append(module)
        module = parents[module]
    return way
