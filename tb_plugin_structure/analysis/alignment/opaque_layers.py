"""A layer that one model runs in one call and the other as a composite: fused attention against its projections."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import class_kind
from tb_plugin_structure.analysis.alignment.links import Link
from tb_plugin_structure.analysis.alignment.roles import name_similarity
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs
from tb_plugin_structure.analysis.alignment.tree import Tree

_KINDS = frozenset(("attention", "recurrent"))
"""Kinds of leaves that other libraries build of several modules."""

_SCORE = 0.6


def pair_opaque_layers(teacher: Tree, student: Tree, links: list[Link]) -> list[Link]:
    """Links between unpaired leaves and unpaired composites whose class states the leaf's kind.

    Both lie in composites that are a pair, and nothing inside the composite has a counterpart elsewhere. Several are
    paired in order, by name where names say something.
    """
    taken_t, taken_s = {link.teacher for link in links}, {link.student for link in links}
    free_t, free_s = _free(teacher, taken_t), _free(student, taken_s)
    if not free_t or not free_s:
        return []
    found: list[Link] = []
    around: set[tuple[int, int]] = {(link.teacher, link.student) for link in links}
    for scope_t, scope_s in sorted(around & {(a, b) for a in free_t for b in free_s}):
        nodes_t, nodes_s = free_t[scope_t], free_s[scope_s]
        score = np.array([[_fit(teacher, node_t, student, node_s) for node_s in nodes_s] for node_t in nodes_t])
        found += [Link(nodes_t[a], nodes_s[b], _SCORE, "sequence") for a, b in monotone_pairs(score)]
    return found


def _free(tree: Tree, taken: set[int]) -> dict[int, list[int]]:
    """Innermost paired node around -> unpaired nodes in it that are such a layer, as a leaf or a composite."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for node in range(1, len(tree)):
        if node in taken or tree.call[node] < 0:
            continue
        kind = class_kind(tree.class_name[node]) if tree.children[node] else tree.kind[node]
        if kind not in _KINDS or any(below in taken for below in range(node, node + tree.size[node])):
            continue
        above = tree.parent[node]
        while above >= 0 and above not in taken:
            if class_kind(tree.class_name[above]) in _KINDS:
                break  # inside another such layer
            above = tree.parent[above]
        if above >= 0 and above in taken:
            found[above].append(node)
    return dict(found)


def _fit(teacher: Tree, node_t: int, student: Tree, node_s: int) -> float:
    leaf_t, leaf_s = teacher.is_leaf(node_t), student.is_leaf(node_s)
    if leaf_t == leaf_s:
        return 0.0
    kind_t = teacher.kind[node_t] if leaf_t else class_kind(teacher.class_name[node_t])
    kind_s = student.kind[node_s] if leaf_s else class_kind(student.class_name[node_s])
    return 0.5 + name_similarity(teacher.segment[node_t], student.segment[node_s]) if kind_t == kind_s else 0.0
