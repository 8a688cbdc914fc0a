"""Composites, paired from what is paired inside them."""

from __future__ import annotations

from collections import defaultdict

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
    shared: defaultdict[tuple[int, int], float] = defaultdict(float)
    counted: set[tuple[int, int]] = set()
    for link in outcome.links:
        leaf_t = teacher.is_leaf(link.teacher) or teacher.kind[link.teacher] != "block"
        leaf_s = student.is_leaf(link.student) or student.kind[link.student] != "block"
        if not (leaf_t and leaf_s) or (link.teacher, link.student) in counted:
            continue
        counted.add((link.teacher, link.student))
        weight = min(SUBSTANCE[teacher.kind[link.teacher]], SUBSTANCE[student.kind[link.student]])
        if link.how == "fused":
            weight /= 1.5
        above_t = [link.teacher, *teacher.ancestors(link.teacher)]
        above_s = [link.student, *student.ancestors(link.student)]
        for node_t in above_t:
            free_t = node_t not in taken_t
            for node_s in above_s:
                if (free_t or node_t == link.teacher) and (node_s not in taken_s or node_s == link.student):
                    shared[node_t, node_s] += weight
    partner_t: defaultdict[int, list[int]] = defaultdict(list)
    partner_s: defaultdict[int, list[int]] = defaultdict(list)
    for node_t, node_s in counted:
        partner_t[node_t].append(node_s)
        partner_s[node_s].append(node_t)
    ranked = []
    for (node_t, node_s), weight in shared.items():
        if node_t in taken_t and node_s in taken_s:
            continue
        both = float(mass_t[node_t] + mass_s[node_s])
        overlap = min(1.0, 2 * weight / both) if both > 0 else 0.0
        if teacher.is_leaf(node_t) or student.is_leaf(node_s):
            tree, outer, inner = (
                (student, node_s, partner_t[node_t])
                if teacher.is_leaf(node_t)
                else (teacher, node_t, partner_s[node_s])
            )
            alike = teacher.extent[node_t].positions == student.extent[node_s].positions
            share = overlap if alike else 0.0
            same_name = _same_name(teacher.segment[node_t], student.segment[node_s])
            alone = _paired_leaves(tree, outer, partner_s if tree is student else partner_t) == 1
            inside = [leaf for leaf in inner if tree.contains(outer, leaf)]
            if not any(_stands_for(tree, outer, leaf, share, same_name, alone) for leaf in inside):
                continue
        elif overlap < LEAST_OVERLAP:
            continue
        real = (teacher.call[node_t] >= 0) + (student.call[node_s] >= 0)
        name = name_similarity(teacher.segment[node_t], student.segment[node_s])
        leafs = (not teacher.children[node_t]) + (not student.children[node_s])
        depth = abs(len(teacher.ancestors(node_t)) - len(student.ancestors(node_s)))
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


def _paired_leaves(tree: Tree, outer: int, partners: dict[int, list[int]]) -> int:
    """How many layers inside a composite have counterparts of their own; what leaves its input as it is aside."""
    return sum(
        1
        for below in range(outer, outer + tree.size[outer])
        if below in partners and SUBSTANCE[tree.kind[below]] >= _LEAST_SHARE
    )


def _same_name(first: str, second: str) -> bool:
    return first == second and not is_opaque(first)


def _stands_for(tree: Tree, outer: int, leaf: int, overlap: float, same_name: bool, alone: bool) -> bool:
    """Whether a composite is one of its leaves with something around it.

    It is when it returns the leaf's tensor and holds nothing weightier; or, where no other leaf inside it has a
    counterpart, when its class states the leaf's kind (an adapted, quantised or parametrised layer around its base), or
    when it has the name of the layer that its leaf is paired with, and takes and returns what the leaf does.
    """
    if tree.call[outer] < 0:
        return False
    if alone and class_kind(tree.class_name[outer]) == tree.kind[leaf]:
        return True
    if alone and same_name and tree.entry[outer] == tree.entry[leaf] and tree.extent[outer] == tree.extent[leaf]:
        return True
    inside = range(outer + 1, outer + tree.size[outer])
    heaviest = max((SUBSTANCE[tree.kind[below]] for below in inside if tree.is_leaf(below)), default=0.0)
    main = SUBSTANCE[tree.kind[leaf]] >= heaviest  # an activation at the end of a block is not what the block is
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
