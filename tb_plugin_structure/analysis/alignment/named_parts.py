"""Parts that both models have once and under one name: a backbone, an encoder, a head, the stages of a trunk."""

from __future__ import annotations

from collections.abc import Collection

from tb_plugin_structure.analysis.alignment.blocks import Side
from tb_plugin_structure.analysis.alignment.roles import is_opaque, says_little
from tb_plugin_structure.analysis.alignment.signatures import cosine
from tb_plugin_structure.analysis.alignment.stack_runs import stem
from tb_plugin_structure.analysis.alignment.tree import Tree

_ALIKE = 0.5
"""Cosine of the bags of two parts from which an equal name is believed."""

_ALIKE_NUMBERED = 0.7
"""The same for parts that are only numbered: the third of four stages in both."""

_LEAST_SHARE = 0.02
"""Share of a scope's substance from which a composite is one of its parts."""

_LEAST_COVER = 0.8
"""Share of both scopes that parts of equal names must hold together; else names say too little to divide them."""


def named_parts(teacher: Side, student: Side, node_t: int, node_s: int) -> list[tuple[int, int]]:
    """Pairs of composites below two nodes that are the only ones of their name on either side; outermost, disjoint, two
    or more, in the student's order. [] where names do not divide both scopes."""
    found_t, found_s = _once(teacher, node_t), _once(student, node_s)
    pairs = sorted((found_s[name], found_t[name]) for name in found_t.keys() & found_s.keys())
    chosen: list[tuple[int, int]] = []
    for inner_s, inner_t in pairs:  # pre-order: outer ones come first
        nested_s = any(student.tree.contains(outer_s, inner_s) for _, outer_s in chosen)
        nested_t = any(teacher.tree.contains(outer_t, inner_t) for outer_t, _ in chosen)
        around = any(teacher.tree.contains(inner_t, outer_t) for outer_t, _ in chosen)
        least = _ALIKE_NUMBERED if student.tree.segment[inner_s][-1:].isdigit() else _ALIKE
        if nested_s or nested_t or around or cosine(teacher.bag(inner_t), student.bag(inner_s)) < least:
            continue
        chosen.append((inner_t, inner_s))
    if len(chosen) < 2:
        return []
    covered_t = _share(teacher, node_t, [inner for inner, _ in chosen])
    covered_s = _share(student, node_s, [inner for _, inner in chosen])
    return chosen if min(covered_t, covered_s) >= _LEAST_COVER else []


def _share(side: Side, scope: int, nodes: Collection[int]) -> float:
    return sum(float(side.tree.mass[node]) for node in nodes) / max(float(side.tree.mass[scope]), 1e-9)


_Name = tuple[str, frozenset[str]]
"""What a part is called, and where it is one of several that are numbered, what they all are called."""


def _once(side: Side, scope: int) -> dict[_Name, int]:
    """Name -> the only composite of that name that is no block of a stack and holds a part of the scope."""
    tree = side.tree
    least = _LEAST_SHARE * float(tree.mass[scope])
    found: dict[_Name, int] = {}
    several: set[_Name] = set()
    work = list(reversed(tree.children[scope]))
    while work:
        node = work.pop()
        if not tree.children[node] or float(tree.mass[node]) < least:
            continue
        elements = {element for stack in side.folding.stacks_in(node) for element in stack}
        work.extend(child for child in reversed(tree.children[node]) if child not in elements)
        name = _name(tree, node)
        if name is None or tree.call[node] < 0 or tree.kind[node] != "block":
            continue
        if name in found or name in several:
            several.add(name)
            found.pop(name, None)
        else:
            found[name] = node
    return found


def _name(tree: Tree, node: int) -> _Name | None:
    """The name of a part; None where it says nothing."""
    segment = tree.segment[node]
    if not segment[-1:].isdigit():
        return None if is_opaque(segment) or says_little(segment) else (segment, frozenset())
    parent = tree.parent[node]
    own = stem(segment)
    around = own or tree.segment[parent]  # "stage" of "stage2", "stages" of "stages.2"
    if parent < 0 or not around or is_opaque(around):
        return None
    beside = frozenset(tree.segment[child] for child in tree.children[parent] if stem(tree.segment[child]) == own)
    numbered = {other for other in beside if other[-1:].isdigit()}
    return (f"{around} {segment}", beside) if len(numbered) > 1 else None
