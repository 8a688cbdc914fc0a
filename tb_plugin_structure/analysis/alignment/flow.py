"""Leftover composites, paired by what they feed: an auto-encoder in the place of a network's first stages."""

from __future__ import annotations

from collections import defaultdict

from tb_plugin_structure.analysis.alignment.links import Link
from tb_plugin_structure.analysis.alignment.tree import Tree


def pair_by_flow(teacher: Tree, student: Tree, links: list[Link]) -> list[Link]:
    """Links between unpaired composites whose outputs have one shape and are read by modules that are a pair."""
    taken_t, taken_s = {link.teacher for link in links}, {link.student for link in links}
    makers_t, makers_s = _makers(teacher, taken_t), _makers(student, taken_s)
    if not makers_t or not makers_s:
        return []
    found: list[Link] = []
    for link in links:
        of_t, of_s = makers_t.get(_read(teacher, link.teacher)), makers_s.get(_read(student, link.student))
        if of_t is None or of_s is None:
            continue
        node_t = _outermost(teacher, of_t, link.teacher, taken_t)
        node_s = _outermost(student, of_s, link.student, taken_s)
        if node_t < 0 or node_s < 0 or teacher.extent[node_t] != student.extent[node_s]:
            continue
        taken_t.add(node_t)
        taken_s.add(node_s)
        found.append(Link(node_t, node_s, 0.5, "flow"))
    return found


def _read(tree: Tree, node: int) -> int:
    """The first tensor that a node reads; -1 for none."""
    inputs = tree.input_tensors[tree.call[node]] if tree.call[node] >= 0 else []
    return inputs[0] if inputs else -1


def _makers(tree: Tree, taken: set[int]) -> dict[int, list[int]]:
    """Tensor -> unpaired composites that return it, outermost first."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for node, below in enumerate(tree.children):
        if below and tree.call[node] >= 0 and node not in taken:
            for tensor in tree.output_tensors[tree.call[node]][:1]:
                found[tensor].append(node)
    return found


def _outermost(tree: Tree, makers: list[int], reader: int, taken: set[int]) -> int:
    """The outermost unpaired composite that returns what `reader` reads; -1 for none."""
    return next((node for node in makers if node not in taken and not tree.contains(node, reader)), -1)
