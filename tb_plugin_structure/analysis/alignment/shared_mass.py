"""How much of what two composites hold is paired with one another."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

_MOST_PRODUCTS = 20_000_000
"""Pairs of nodes around paired leaves up to which every pair of composites is looked at."""

_FURTHER = 2
"""Composites around the smallest one that holds all partners, which hold them too: wrappers."""


def shared_mass(
    teacher: Tree,
    student: Tree,
    counted: Mapping[tuple[int, int], float],
    taken_t: Collection[int],
    taken_s: Collection[int],
) -> tuple[Array, Array, Array]:
    """Teacher nodes, student nodes, and the weight of the pairs of leaves that lie in both; for nodes without a
    counterpart and for the leaves themselves.

    Args:
        teacher: The teacher.
        student: The student.
        counted: Paired leaves and their weights.
        taken_t: Teacher nodes that have a counterpart.
        taken_s: Student nodes that have one.
    """
    if not counted:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0)
    leaf_t, leaf_s = (np.array(side, np.int64) for side in zip(*counted, strict=True))
    weight = np.array(list(counted.values()))
    free_t, free_s = _free(teacher, taken_t), _free(student, taken_s)
    levels = _levels(teacher, leaf_t) * _levels(student, leaf_s)
    if len(counted) * levels <= _MOST_PRODUCTS:
        keys, weights = _products(teacher, student, leaf_t, leaf_s, weight, free_t, free_s)
    else:
        keys, weights = _covers(teacher, student, leaf_t, leaf_s, weight, free_t, free_s)
    nodes_t, nodes_s = np.divmod(keys, len(student))
    return nodes_t, nodes_s, weights


def _levels(tree: Tree, leaves: Array) -> int:
    """How many nodes lie around the deepest leaf, itself included."""
    deepest: int = max(tree.depth[leaf] for leaf in leaves.tolist())
    return deepest + 1


def _free(tree: Tree, taken: Collection[int]) -> Array:
    """Whether each node is without counterpart; False in the last place, which -1 reads."""
    free = np.ones(len(tree) + 1, bool)
    free[list(taken)] = False
    free[-1] = False
    return free


def _products(
    teacher: Tree, student: Tree, leaf_t: Array, leaf_s: Array, weight: Array, free_t: Array, free_s: Array
) -> tuple[Array, Array]:
    """Every node around a leaf with every node around its partner."""
    keys: list[Array] = []
    weights: list[Array] = []
    around_s = _ancestors(student, leaf_s, free_s)
    for column_t in _ancestors(teacher, leaf_t, free_t):
        for column_s in around_s:
            both = (column_t >= 0) & (column_s >= 0)
            keys.append(column_t[both] * len(student) + column_s[both])
            weights.append(weight[both])
    together = np.concatenate(keys)
    order = np.argsort(together, kind="stable")  # fast here: leaves are in order, and so are most keys
    together = together[order]
    begins = np.diff(together, prepend=-1) > 0
    return together[begins], np.bincount(np.cumsum(begins) - 1, np.concatenate(weights)[order])


def _ancestors(tree: Tree, leaves: Array, free: Array) -> list[Array]:
    """The leaves, then for each level above them their ancestors at that level; -1 for none, or for one with a
    counterpart."""
    parent = np.array(tree.parent, np.int64)
    found, nodes = [leaves], leaves
    while True:
        nodes = np.where(nodes >= 0, parent[nodes], -1)
        if (nodes < 0).all():
            return found
        found.append(np.where(free[nodes], nodes, -1))


def _covers(
    teacher: Tree, student: Tree, leaf_t: Array, leaf_s: Array, weight: Array, free_t: Array, free_s: Array
) -> tuple[Array, Array]:
    """In very deep models: each node with the smallest ones of the other model that hold all its partners.

    Two composites that partly overlap, and hold what the other does not, are not looked at.
    """
    t_in_s, total_t = _cover(teacher, student, leaf_t, leaf_s, weight, free_t, free_s)
    s_in_t, total_s = _cover(student, teacher, leaf_s, leaf_t, weight, free_s, free_t)
    pairs = np.array([*t_in_s, *((outer, inner) for inner, outer in s_in_t)], np.int64).reshape(-1, 2)
    shared = np.array([*(total_t[inner] for inner, _ in t_in_s), *(total_s[inner] for inner, _ in s_in_t)])
    keys, first = np.unique(pairs[:, 0] * len(student) + pairs[:, 1], return_index=True)
    return keys, shared[first]


def _cover(
    tree: Tree, other: Tree, leaves: Array, partners: Array, weight: Array, free: Array, free_other: Array
) -> tuple[list[tuple[int, int]], list[float]]:
    """(node, node of the other model that holds all its partners), and the weight at or below each node."""
    lowest, highest, total = [len(other)] * len(tree), [-1] * len(tree), [0.0] * len(tree)
    for leaf, partner, value in zip(leaves.tolist(), partners.tolist(), weight.tolist(), strict=True):
        lowest[leaf], highest[leaf] = min(lowest[leaf], partner), max(highest[leaf], partner)
        total[leaf] += value
    parents, size = other.parent, other.size
    around = [-1] * len(tree)
    is_leaf = set(leaves.tolist())
    pairs: list[tuple[int, int]] = []
    for node in range(len(tree) - 1, -1, -1):
        if highest[node] < 0:
            continue
        cover = around[node] if around[node] >= 0 else lowest[node]
        while cover > lowest[node] or highest[node] >= cover + size[cover]:
            cover = parents[cover]
        above = tree.parent[node]
        if above >= 0:
            lowest[above], highest[above] = min(lowest[above], lowest[node]), max(highest[above], highest[node])
            total[above] += total[node]
            if around[above] < 0 or cover < around[above]:
                around[above] = cover
        if free[node] or node in is_leaf:
            found = 0
            while cover >= 0 and found <= _FURTHER:
                if free_other[cover]:
                    pairs.append((node, cover))
                    found += 1
                cover = parents[cover]
    return pairs, total
