"""Leftover composites, paired by what they feed: an auto-encoder in the place of a network's first stages."""

from __future__ import annotations

from collections import defaultdict

from tb_plugin_structure.analysis.alignment.links import Link
from tb_plugin_structure.analysis.alignment.tree import Tree


def pair_by_flow(teacher: Tree, student: Tree, links: list[Link]) -> list[Link]:
    """Links between unpaired composites whose outputs have one shape and are read by modules that are a pair."""
    taken_t, taken_s = {link.teacher for link in links}, {link.student for link in links}
    makers_t, makers_s = _makers(teacher), _makers(student)
    found: list[Link] = []
    for link in links:
        read_t, read_s = _read(teacher, link.teacher), _read(student, link.student)
        if read_t < 0 or read_s < 0:
            continue
        node_t = _outermost(teacher, makers_t.get(read_t, ()), link.teacher, taken_t)
        node_s = _outermost(student, makers_s.get(read_s, ()), link.student, taken_s)
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


def _makers(tree: Tree) -> dict[int, list[int]]:
    """Tensor -> composites that return it, outermost first."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for node in range(len(tree)):
        if tree.call[node] >= 0 and tree.children[node]:
            for tensor in tree.output_tensors[tree.call[node]][:1]:
                found[tensor].append(node)
    return found


def _outermost(tree: Tree, makers: list[int] | tuple[int, ...], reader: int, taken: set[int]) -> int:
    """The outermost unpaired composite that returns what `reader` reads; -1 for none."""
    return next((node for node in makers if node not in taken and not tree.contains(node, reader)), -1)
