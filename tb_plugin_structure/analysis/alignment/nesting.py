"""Composites, paired from what is paired inside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, class_kind
from tb_plugin_structure.analysis.alignment.links import Link, Outcome
from tb_plugin_structure.analysis.alignment.roles import is_opaque, name_similarity
from tb_plugin_structure.analysis.alignment.shared_mass import shared_mass
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
    nodes_t, nodes_s, weights = shared_mass(teacher, student, counted, taken_t, taken_s)
    partner_t: defaultdict[int, list[int]] = defaultdict(list)
    partner_s: defaultdict[int, list[int]] = defaultdict(list)
    for node_t, node_s in counted:
        partner_t[node_t].append(node_s)
        partner_s[node_s].append(node_t)
    inner_t, inner_s = _Inner(teacher, partner_t), _Inner(student, partner_s)
    overlaps = np.minimum(1.0, 2 * weights / np.maximum(mass_t[nodes_t] + mass_s[nodes_s], 1e-9))
    possible = _possible(inner_t, inner_s, nodes_t, nodes_s, overlaps, taken_t, taken_s)
    ranked = []
    for node_t, node_s, overlap in zip(
        nodes_t[possible].tolist(), nodes_s[possible].tolist(), overlaps[possible].tolist(), strict=True
    ):
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


def _possible(
    inner_t: _Inner,
    inner_s: _Inner,
    nodes_t: Array,
    nodes_s: Array,
    overlaps: Array,
    taken_t: Collection[int],
    taken_s: Collection[int],
) -> Array:
    """Whether each pair may become a link: two composites that overlap enough, or a composite that may stand for one
    of its leaves."""
    free_t, free_s = np.ones(len(inner_t.tree), bool), np.ones(len(inner_s.tree), bool)
    free_t[list(taken_t)] = free_s[list(taken_s)] = False
    holds_t, holds_s = inner_t.holds[nodes_t], inner_s.holds[nodes_s]
    stands = np.where(holds_s, inner_s.may_stand[nodes_s], inner_t.may_stand[nodes_t])
    alone = np.where(holds_s, inner_s.is_alone[nodes_s], inner_t.is_alone[nodes_t])
    says = np.where(holds_s, inner_s.states_kind[nodes_s], inner_t.states_kind[nodes_t])
    says |= _segments(inner_t.tree, inner_s.tree, nodes_t, nodes_s)
    mixed = (holds_t != holds_s) & stands & ((alone & says) | (overlaps >= _LEAST_SHARE))
    possible: Array = (free_t[nodes_t] | free_s[nodes_s]) & ((holds_t & holds_s & (overlaps >= LEAST_OVERLAP)) | mixed)
    return possible


def _segments(teacher: Tree, student: Tree, nodes_t: Array, nodes_s: Array) -> Array:
    """Whether the path segments of pairs of nodes are equal."""
    codes: dict[str, int] = {}
    of_t, of_s = (
        np.array([codes.setdefault(name, len(codes)) for name in tree.segment], np.int64) for tree in (teacher, student)
    )
    equal: Array = of_t[nodes_t] == of_s[nodes_s]
    return equal


class _Inner:
    """What composites of one model hold: how many paired layers, and the substance of the weightiest leaf."""

    def __init__(self, tree: Tree, partners: Mapping[int, list[int]]) -> None:
        self.tree = tree
        # What leaves its input nearly as it is does not count as a layer.
        counted = [int(SUBSTANCE[tree.kind[node]] >= _LEAST_SHARE) for node in partners]
        counts = np.zeros(len(tree), np.int64)
        counts[list(partners)] = counted
        running = np.concatenate([[0], np.cumsum(counts)])
        layers = running[np.arange(len(tree)) + np.array(tree.size, np.int64)] - running[:-1]
        self._layers = layers.tolist()
        self.is_alone: Array = layers == 1
        """Whether each node holds one paired layer."""
        self.holds: Array = np.array(list(map(bool, tree.children)), bool)
        self.may_stand: Array = np.array(tree.call, np.int64) >= 0
        """Whether each node is a call, which a container is not."""
        stated = {name: bool(class_kind(name)) for name in dict.fromkeys(tree.class_name)}
        self.states_kind: Array = np.array(list(map(stated.__getitem__, tree.class_name)), bool)
        """Whether each node's class states a kind."""
        self.heaviest = [0.0] * len(tree)
        for node in range(len(tree) - 1, 0, -1):
            own = self.heaviest[node] if tree.children[node] else SUBSTANCE[tree.kind[node]]
            self.heaviest[tree.parent[node]] = max(self.heaviest[tree.parent[node]], own)

    def may_stand_for(self, outer: int, leaf: int) -> bool:
        """Whether a composite holds one paired layer, or nothing weightier than a leaf."""
        return self.paired_layers(outer) == 1 or SUBSTANCE[self.tree.kind[leaf]] >= self.heaviest[outer]

    def paired_layers(self, node: int) -> int:
        return int(self._layers[node])


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
