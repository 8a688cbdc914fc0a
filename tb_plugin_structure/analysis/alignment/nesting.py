"""Composites, paired from what is paired inside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import eq

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, class_kind
from tb_plugin_structure.analysis.alignment.links import Link, Outcome
from tb_plugin_structure.analysis.alignment.numbering import Interner
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
    overlaps = np.minimum(1.0, 2 * weights / np.maximum(mass_t[nodes_t] + mass_s[nodes_s], 1e-9))
    free_t, free_s = _free(teacher, taken_t), _free(student, taken_s)
    inner_t = _Inner(teacher, [pair for pair, _ in counted], [pair for _, pair in counted])
    inner_s = _Inner(student, [pair for _, pair in counted], [pair for pair, _ in counted])
    holds_t, holds_s = inner_t.holds[nodes_t], inner_s.holds[nodes_s]
    candidates = free_t[nodes_t] | free_s[nodes_s]
    possible = candidates & holds_t & holds_s & (overlaps >= LEAST_OVERLAP)
    intern = Interner()
    positions_t, positions_s = (
        intern.each("", [extent.positions for extent in tree.extents])[tree.extent_row] for tree in (teacher, student)
    )
    alike = positions_t[nodes_t] == positions_s[nodes_s]
    names_t, names_s = (
        map(tree.segment.__getitem__, nodes.tolist()) for tree, nodes in ((teacher, nodes_t), (student, nodes_s))
    )
    named = np.fromiter(map(eq, names_t, names_s), bool, len(nodes_t))
    share = np.where(alike, overlaps, 0.0)
    for inner, mixed, outer, leaf in (
        (inner_s, candidates & ~holds_t & holds_s, nodes_s, nodes_t),
        (inner_t, candidates & holds_t & ~holds_s, nodes_t, nodes_s),
    ):
        places = np.flatnonzero(mixed)
        possible[places[inner.stand_for(outer[places], leaf[places], share[places], named[places])]] = True
    links: list[Link] = []
    for node_t, node_s, overlap in _ranked(
        teacher, student, nodes_t[possible], nodes_s[possible], overlaps[possible], inner_t, inner_s
    ):
        holds_t_too, holds_s_too = bool(teacher.children[node_t]), bool(student.children[node_s])
        if (node_t in taken_t and holds_t_too) or (node_s in taken_s and holds_s_too):
            continue
        if not (holds_t_too and holds_s_too) and (node_t in taken_t) == (node_s in taken_s):
            continue
        taken_t.add(node_t)
        taken_s.add(node_s)
        links.append(Link(node_t, node_s, overlap, "nesting"))
    return links


def _free(tree: Tree, taken: Collection[int]) -> Array:
    """Whether each node is without counterpart."""
    free = np.ones(len(tree), bool)
    free[list(taken)] = False
    return free


def _ranked(
    teacher: Tree, student: Tree, nodes_t: Array, nodes_s: Array, overlaps: Array, inner_t: _Inner, inner_s: _Inner
) -> list[tuple[int, int, float]]:
    """Candidates, best first: by overlap and name, then composites before leaves, calls before containers, like depths
    before unlike ones."""
    names = [
        name_similarity(teacher.segment[node_t], student.segment[node_s])
        for node_t, node_s in zip(nodes_t.tolist(), nodes_s.tolist(), strict=True)
    ]
    fit = np.round(overlaps + 0.1 * np.array(names), 3)
    leaves = 2 - inner_t.holds[nodes_t].astype(int) - inner_s.holds[nodes_s]
    real = inner_t.is_call[nodes_t].astype(int) + inner_s.is_call[nodes_s]
    depth = np.abs(np.array(teacher.depth)[nodes_t] - np.array(student.depth)[nodes_s])
    order = np.lexsort((overlaps, nodes_s, nodes_t, depth, -real, leaves, -fit))
    return list(zip(nodes_t[order].tolist(), nodes_s[order].tolist(), overlaps[order].tolist(), strict=True))


class _Inner:
    """What composites of one model hold: how many paired layers, and the substance of the weightiest leaf."""

    def __init__(self, tree: Tree, paired: Sequence[int], partners: Sequence[int]) -> None:
        self.tree = tree
        self._size = np.array(tree.size, np.int64)
        kinds = Interner()
        self._kind = kinds.each("", tree.kind)
        self._stated = kinds.each("", map(class_kind, tree.class_name))
        self._substance = np.array([SUBSTANCE[kind] for kind in tree.kind])
        counts = np.zeros(len(tree), np.int64)
        # What leaves its input nearly as it is does not count as a layer.
        counts[list(paired)] = self._substance[list(paired)] >= _LEAST_SHARE
        running = np.concatenate([[0], np.cumsum(counts)])
        self._layers = running[np.arange(len(tree)) + self._size] - running[:-1]
        self.holds: Array = np.array(list(map(bool, tree.children)), bool)
        """Whether each node is a composite."""
        self.is_call: Array = np.array(tree.call, np.int64) >= 0
        """Whether each node is a call, which a container is not."""
        self._partners = sorted(zip(partners, paired, strict=True))
        """(node of the other model, node of this one), both paired layers."""
        heaviest = [0.0] * len(tree)
        for node in range(len(tree) - 1, 0, -1):
            own = heaviest[node] if tree.children[node] else SUBSTANCE[tree.kind[node]]
            above = tree.parent[node]
            if own > heaviest[above]:
                heaviest[above] = own
        self._heaviest = np.array(heaviest)

    def stand_for(self, outer: Array, others: Array, share: Array, named: Array) -> Array:
        """Which composites are one of their leaves with something around it; others: leaves of the other model, with
        which that leaf is paired.

        A composite is when it returns the leaf's tensor and holds nothing weightier; or, where no other leaf inside it
        has a counterpart, when its class states the leaf's kind (an adapted, quantised or parametrised layer around its
        base), or when it has the name of the layer that its leaf is paired with, and takes and returns what the leaf
        does.

        Args:
            outer: Composites.
            others: For each a leaf of the other model.
            share: How much of both is common; 0 where their positions differ.
            named: Whether the composite and the other model's leaf have one name.

        Returns:
            Positions in `outer`.
        """
        if not self._partners or not len(outer):
            return np.zeros(0, np.int64)
        of_other, inside = np.array(self._partners, np.int64).T
        begin, end = np.searchsorted(of_other, others), np.searchsorted(of_other, others, "right")
        place = np.repeat(np.arange(len(outer)), end - begin)  # every partner of every leaf
        leaf = inside[np.arange(len(place)) - np.repeat(np.cumsum(end - begin) - end, end - begin)]
        around = outer[place]
        within = (around <= leaf) & (leaf < around + self._size[around]) & self.is_call[around]
        place, leaf, around = place[within], leaf[within], around[within]
        tree = self.tree
        alone = self._layers[around] == 1
        # An activation at a block's end is not what the block is.
        main = self._substance[leaf] >= self._heaviest[around]
        entries, extents = np.array(tree.entry_row, np.int64), np.array(tree.extent_row, np.int64)
        keeps = (entries[around] == entries[leaf]) & (extents[around] == extents[leaf])
        keeps &= alone & named[place]
        keeps[keeps] = [not is_opaque(tree.segment[node]) for node in around[keeps].tolist()]
        stated = (self._stated[around] == self._kind[leaf]) | keeps
        returned = main & (share[place] >= _LEAST_SHARE)
        returned[returned] = [
            tree.returns_same(*pair) for pair in zip(around[returned].tolist(), leaf[returned].tolist(), strict=True)
        ]
        return np.unique(place[(alone & stated) | returned])


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
