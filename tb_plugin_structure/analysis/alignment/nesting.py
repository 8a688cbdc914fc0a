"""Composites, paired from what is paired inside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, class_kind
from tb_plugin_structure.analysis.alignment.links import Link, Outcome
from tb_plugin_structure.analysis.alignment.roles import is_opaque, name_similarity
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

LEAST_OVERLAP = 0.45
"""Share of common leaves (Dice, weighted by substance) from which two composites are paired."""

_LEAST_SHARE = 0.3


def pair_composites(teacher: Tree, student: Tree, outcome: Outcome) -> list[Link]:
    """Links between composites (or a composite and a leaf) that hold mostly paired leaves.

    Leaves in blocks that a stack leaves unpaired do not count against the container of the stack.
    """
    taken_t = {link.teacher for link in outcome.links}
    taken_s = {link.student for link in outcome.links}
    mass_t, mass_s = _counted_mass(teacher, outcome, True), _counted_mass(student, outcome, False)
    counted: dict[tuple[int, int], float] = {}
    for link in outcome.links:
        if (link.teacher, link.student) in counted:
            continue
        kind_t, kind_s = teacher.kind[link.teacher], student.kind[link.student]
        if (kind_t == "block" and teacher.children[link.teacher]) or (
            kind_s == "block" and student.children[link.student]
        ):
            continue
        weight = min(SUBSTANCE[kind_t], SUBSTANCE[kind_s])
        counted[link.teacher, link.student] = weight / 1.5 if link.how == "fused" else weight
    shared = _shared_mass(teacher, student, counted, taken_t, taken_s)
    partner_t: defaultdict[int, list[int]] = defaultdict(list)
    partner_s: defaultdict[int, list[int]] = defaultdict(list)
    for node_t, node_s in counted:
        partner_t[node_t].append(node_s)
        partner_s[node_s].append(node_t)
    inner_t, inner_s = _Inner(teacher, partner_t), _Inner(student, partner_s)
    ranked = []
    masses_t, masses_s = mass_t.tolist(), mass_s.tolist()
    for node_t, node_s, weight in shared:
        if node_t in taken_t and node_s in taken_s:
            continue
        both = masses_t[node_t] + masses_s[node_s]
        overlap = min(1.0, 2 * weight / both) if both > 0 else 0.0
        if overlap < LEAST_OVERLAP and teacher.children[node_t] and student.children[node_s]:
            continue
        if teacher.is_leaf(node_t) or student.is_leaf(node_s):
            inner, outer, partners = (
                (inner_s, node_s, partner_t[node_t])
                if teacher.is_leaf(node_t)
                else (inner_t, node_t, partner_s[node_s])
            )
            begin, end = outer, outer + inner.tree.size[outer]
            inside = [leaf for leaf in partners if begin <= leaf < end and inner.may_stand_for(outer, leaf)]
            if not inside:
                continue
            alike = teacher.extent[node_t].positions == student.extent[node_s].positions
            share = overlap if alike else 0.0
            same_name = _same_name(teacher.segment[node_t], student.segment[node_s])
            if not any(_stands_for(inner, outer, leaf, share, same_name) for leaf in inside):
                continue
        real = (teacher.call[node_t] >= 0) + (student.call[node_s] >= 0)
        name = name_similarity(teacher.segment[node_t], student.segment[node_s])
        leafs = (not teacher.children[node_t]) + (not student.children[node_s])
        depth = abs(teacher.depth[node_t] - student.depth[node_s])
        ranked.append((-round(overlap + 0.1 * name, 3), leafs, -real, depth, node_t, node_s, overlap))
    ranked.sort()
    links: list[Link] = []
    for _, leafs, _, _, node_t, node_s, overlap in ranked:
        if (node_t in taken_t and teacher.children[node_t]) or (node_s in taken_s and student.children[node_s]):
            continue
        if leafs and (node_t in taken_t) == (node_s in taken_s):
            continue
        taken_t.add(node_t)
        taken_s.add(node_s)
        links.append(Link(node_t, node_s, overlap, "nesting"))
    return links


def _shared_mass(
    teacher: Tree, student: Tree, counted: Mapping[tuple[int, int], float], taken_t: set[int], taken_s: set[int]
) -> list[tuple[int, int, float]]:
    """(teacher node, student node, weight of the pairs of leaves that lie in both), for nodes without a counterpart and
    for the leaves themselves."""
    if not counted:
        return []
    leaf_t, leaf_s = (np.array(side, np.int64) for side in zip(*counted, strict=True))
    weight = np.array(list(counted.values()))
    above_t, above_s = _free_ancestors(teacher, leaf_t, taken_t), _free_ancestors(student, leaf_s, taken_s)
    keys: list[Array] = []
    weights: list[Array] = []
    for column_t in above_t:
        for column_s in above_s:
            both = (column_t >= 0) & (column_s >= 0)
            keys.append(column_t[both] * len(student) + column_s[both])
            weights.append(weight[both])
    unique, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(inverse.ravel(), np.concatenate(weights))
    nodes_t, nodes_s = np.divmod(unique, len(student))
    return list(zip(nodes_t.tolist(), nodes_s.tolist(), sums.tolist(), strict=True))


def _free_ancestors(tree: Tree, leaves: Array, taken: set[int]) -> list[Array]:
    """The leaves, then for each level above them their ancestors at that level; -1 for none, or for one with a
    counterpart."""
    parent = np.array(tree.parent, np.int64)
    free = np.ones(len(tree) + 1, bool)
    free[list(taken)] = False
    free[-1] = False  # the place that -1 reads
    found, nodes = [leaves], leaves
    while True:
        nodes = np.where(nodes >= 0, parent[nodes], -1)
        if (nodes < 0).all():
            return found
        found.append(np.where(free[nodes], nodes, -1))


class _Inner:
    """What composites of one model hold: how many paired layers, and the substance of the weightiest leaf."""

    def __init__(self, tree: Tree, partners: Mapping[int, list[int]]) -> None:
        self.tree = tree
        # What leaves its input nearly as it is does not count as a layer.
        counts = [int(node in partners and SUBSTANCE[tree.kind[node]] >= _LEAST_SHARE) for node in range(len(tree))]
        self._running = [0, *accumulate(counts)]
        self.heaviest = [0.0] * len(tree)
        for node in range(len(tree) - 1, 0, -1):
            own = self.heaviest[node] if tree.children[node] else SUBSTANCE[tree.kind[node]]
            self.heaviest[tree.parent[node]] = max(self.heaviest[tree.parent[node]], own)

    def may_stand_for(self, outer: int, leaf: int) -> bool:
        """Whether a composite holds one paired layer, or nothing weightier than a leaf."""
        return self.paired_layers(outer) == 1 or SUBSTANCE[self.tree.kind[leaf]] >= self.heaviest[outer]

    def paired_layers(self, node: int) -> int:
        return self._running[node + self.tree.size[node]] - self._running[node]


def _same_name(first: str, second: str) -> bool:
    return first == second and not is_opaque(first)


def _stands_for(inner: _Inner, outer: int, leaf: int, overlap: float, same_name: bool) -> bool:
    """Whether a composite is one of its leaves with something around it.

    It is when it returns the leaf's tensor and holds nothing weightier; or, where no other leaf inside it has a
    counterpart, when its class states the leaf's kind (an adapted, quantised or parametrised layer around its base), or
    when it has the name of the layer that its leaf is paired with, and takes and returns what the leaf does.
    """
    tree = inner.tree
    if tree.call[outer] < 0:
        return False
    if inner.paired_layers(outer) == 1:
        if class_kind(tree.class_name[outer]) == tree.kind[leaf]:
            return True
        if same_name and tree.entry[outer] == tree.entry[leaf] and tree.extent[outer] == tree.extent[leaf]:
            return True
    main = SUBSTANCE[tree.kind[leaf]] >= inner.heaviest[outer]  # an activation at a block's end is not what it is
    return main and overlap >= _LEAST_SHARE and tree.returns_same(outer, leaf)


def _counted_mass(tree: Tree, outcome: Outcome, is_teacher: bool) -> Array:
    """Mass below each node, blocks left out that their stack leaves unpaired."""
    mass: Array = tree.mass.copy()
    for stack in outcome.stacks:
        unit = stack.teacher if is_teacher else stack.student
        paired = {pair[0 if is_teacher else 1] for pair in stack.pairs}
        for place, element in enumerate(unit.elements):
            if place not in paired:
                lost = float(mass[element])
                node = tree.parent[element]
                while node >= 0:
                    mass[node] -= lost
                    node = tree.parent[node]
    return mass
