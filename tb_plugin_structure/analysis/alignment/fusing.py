"""One projection against several: fused query-key-value or gate-up layers against separate ones."""

from __future__ import annotations

from collections import Counter

from tb_plugin_structure.analysis.alignment.stacks import Unit
from tb_plugin_structure.analysis.alignment.tree import Tree

_TOLERANCE = 0.02
_NARROW = 0.1
"""A projection this much narrower than its widest sibling is a low-rank adapter beside it, not a part of the whole."""


def fuse(
    teacher: Tree, student: Tree, units_t: list[Unit], units_s: list[Unit]
) -> tuple[list[Unit], list[Unit], dict[int, list[int]], dict[int, list[int]]]:
    """Replace groups of projections of one input by their first member where the other side has them as one layer.

    A group and a fused layer fit when the group's output widths add up to the layer's, both relative to the width of
    the input: query, key and value of equal width against one layer of three times the input's width.

    Returns:
        Units of both sides, and for each kept first member the members it stands for.
    """
    groups_t, groups_s = fan_groups(teacher, units_t), fan_groups(student, units_s)
    shapes_t = Counter(len(group) for group in groups_t)
    shapes_s = Counter(len(group) for group in groups_s)
    members_t = _fused_into(teacher, groups_t, shapes_s, student, units_s, groups_s)
    members_s = _fused_into(student, groups_s, shapes_t, teacher, units_t, groups_t)
    return _keep(units_t, members_t), _keep(units_s, members_s), members_t, members_s


def fan_groups(tree: Tree, units: list[Unit]) -> list[list[int]]:
    """Linear leaves that follow one another and read one tensor."""
    by_input: dict[int, list[int]] = {}
    for unit in units:
        if unit.is_stack or tree.kind[unit.node] != "linear":
            continue
        inputs = tree.input_tensors[tree.call[unit.node]]
        if inputs:
            by_input.setdefault(inputs[0], []).append(unit.node)
    groups = []
    for nodes in by_input.values():
        if len(nodes) < 2:
            continue
        widest = max(_ratio(tree, node) for node in nodes)
        group = [node for node in nodes if _ratio(tree, node) >= _NARROW * widest]
        if len(group) > 1:
            groups.append(group)
    return groups


def _ratio(tree: Tree, node: int) -> float:
    entry, extent = tree.entry[node].width, tree.extent[node].width
    return extent / entry if entry else 0.0


def _fused_into(
    tree: Tree,
    groups: list[list[int]],
    other_group_sizes: Counter[int],
    other: Tree,
    other_units: list[Unit],
    other_groups: list[list[int]],
) -> dict[int, list[int]]:
    """First member -> members, for groups that the other side has as a single layer."""
    grouped = {node for group in other_groups for node in group}
    single = [
        _ratio(other, unit.node)
        for unit in other_units
        if not unit.is_stack and other.kind[unit.node] == "linear" and unit.node not in grouped
    ]
    available = Counter(other_group_sizes)
    found: dict[int, list[int]] = {}
    for group in groups:
        if available[len(group)] > 0:
            available[len(group)] -= 1
            continue
        total = sum(_ratio(tree, node) for node in group)
        if total <= 0:
            continue
        fitting = [k for k, ratio in enumerate(single) if abs(ratio - total) <= _TOLERANCE * total]
        if fitting:
            del single[fitting[0]]
            found[group[0]] = group
    return found


def _keep(units: list[Unit], members: dict[int, list[int]]) -> list[Unit]:
    dropped = {node for group in members.values() for node in group[1:]}
    return [unit for unit in units if unit.is_stack or unit.node not in dropped]
