"""Leftover composites of one name in a pair of composites: a mixture of experts in the place of a dense network."""

from __future__ import annotations

from collections import defaultdict

from tb_plugin_structure.analysis.alignment.links import Link
from tb_plugin_structure.analysis.alignment.roles import is_opaque
from tb_plugin_structure.analysis.alignment.tree import Tree


def pair_by_place(teacher: Tree, student: Tree, links: list[Link]) -> list[Link]:
    """Links between unpaired composites that have one name within parents that are a pair, and that return as many
    positions as they take on both sides."""
    taken_t, taken_s = {link.teacher for link in links}, {link.student for link in links}
    partners: defaultdict[int, list[int]] = defaultdict(list)
    for link in links:
        partners[link.student].append(link.teacher)
    found: list[Link] = []
    for node_s in range(1, len(student)):
        name = student.segment[node_s]
        if node_s in taken_s or not _is_part(student, node_s) or is_opaque(name):
            continue
        for parent_t in partners.get(student.parent[node_s], ()):
            node_t = next((child for child in teacher.children[parent_t] if teacher.segment[child] == name), -1)
            if node_t >= 0 and node_t not in taken_t and _is_part(teacher, node_t):
                taken_t.add(node_t)
                partners[node_s].append(node_t)
                found.append(Link(node_t, node_s, 0.5, "place"))
                break
    return found


def _is_part(tree: Tree, node: int) -> bool:
    """Whether a node is a called composite that keeps the number of positions."""
    return (
        bool(tree.children[node]) and tree.call[node] >= 0 and tree.entry[node].positions == tree.extent[node].positions
    )
