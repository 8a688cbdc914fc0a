"""Stages: where a trunk changes its resolution. Stage order, not resolution, says which stages correspond."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from tb_plugin_structure.analysis.alignment.evidence import STACK_SUBSTANCE, Side
from tb_plugin_structure.analysis.alignment.policies import STAGE_FRACTIONS, stage_indices
from tb_plugin_structure.analysis.alignment.roles import is_opaque
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs
from tb_plugin_structure.analysis.alignment.stacks import Unit
from tb_plugin_structure.records.table import Array

_LEAST_STAGES = 3

StagePairs = list[tuple[int, int, list[tuple[int, int]]]]


def stage_groups(side: Side) -> list[list[int]]:
    """Stacks of a trunk, grouped by the resolution they keep; each group is a list of unit positions."""
    groups: list[list[int]] = []
    previous: tuple[object, ...] | None = None
    for index, unit in enumerate(side.units):
        if not unit.is_stack:
            continue
        # List entries are grouped by the resolution they keep; attributes with names are stages as their author saw it.
        listed = all(is_opaque(piece) for piece in _holder_segments(side, unit))
        key = (side.tree.extent[unit.last].positions, None if listed else unit)
        if groups and key == previous:
            groups[-1].append(index)
        else:
            groups.append([index])
        previous = key
    return groups


def _holder_segments(side: Side, unit: Unit) -> list[str]:
    """Segments of what holds just the blocks of a unit: the block itself when it is alone, else their container."""
    tree = side.tree
    alone = len(tree.children[unit.node]) == len(unit.elements)
    node = unit.node if alone and unit.node > 0 else unit.elements[0]
    segments = [tree.segment[element] for element in unit.elements[:1]] if node == unit.node else []
    segments.append(tree.segment[node])
    while tree.parent[node] > 0 and len(tree.children[tree.parent[node]]) == 1:
        node = tree.parent[node]
        segments.append(tree.segment[node])
    return segments


def anchor_stages(teacher: Side, student: Side, matrix: Array) -> tuple[list[tuple[int, int]], StagePairs]:
    """Pairs of stacks that end corresponding stages.

    Returns:
        Fixed pairs of unit positions for alike families; and, where one side has stages and the other a single
        stack, or blocks are unlike, (teacher unit, student unit, pairs of nodes) to be paired as stages only.
    """
    groups_t, groups_s = stage_groups(teacher), stage_groups(student)
    if len(groups_t) < 2 and len(groups_s) < 2:
        return [], []
    if len(groups_t) == 1 and _narrows(student, groups_s):
        return [], _against_one(student, groups_s, teacher, groups_t, flipped=True)
    if len(groups_s) == 1 and _narrows(teacher, groups_t):
        return [], _against_one(teacher, groups_t, student, groups_s, flipped=False)
    if len(groups_t) < 2 or len(groups_s) < 2:
        return [], []
    fit = np.zeros((len(groups_t), len(groups_s)))
    from_end_t, from_end_s = _from_end(teacher, groups_t), _from_end(student, groups_s)
    for a, group_t in enumerate(groups_t):
        for b, group_s in enumerate(groups_s):
            i, j = group_t[-1], group_s[-1]
            resolution = teacher.positions[i] == student.positions[j]
            (level_t, place_t), (level_s, place_s) = from_end_t[a], from_end_s[b]
            apart = 0.3 * abs(level_t - level_s) + 0.1 * abs(place_t - place_s) * (level_t == level_s)
            fit[a, b] = 1.0 + max(matrix[i, j], 0.0) / (2 * STACK_SUBSTANCE) + 0.25 * bool(resolution) - apart
    if len(groups_t) == len(groups_s):
        fit += 1.5 * np.eye(len(groups_t))
    fixed: list[tuple[int, int]] = []
    stage_only: StagePairs = []
    for a, b in monotone_pairs(fit):
        i, j = groups_t[a][-1], groups_s[b][-1]
        if matrix[i, j] > 0:
            fixed.append((i, j))
        else:
            stage_only.append((i, j, [(_stage_node(teacher, i), _stage_node(student, j))]))
    return fixed, stage_only


def _from_end(side: Side, groups: list[list[int]]) -> list[tuple[int, int]]:
    """For each group how many changes of resolution come after it, and how many groups of its resolution."""
    found: list[tuple[int, int]] = []
    level = place = 0
    after: object = None
    for group in reversed(groups):
        positions = side.positions[group[-1]]
        if found:
            level, place = (level, place + 1) if positions == after else (level + 1, 0)
        after = positions
        found.append((level, place))
    return found[::-1]


def _narrows(side: Side, groups: list[list[int]]) -> bool:
    """Whether groups of stacks are stages: three or more, each with fewer positions than the one before.

    An encoder and a decoder are two groups, and not stages.
    """
    positions = [prod(side.tree.extent[side.units[group[-1]].last].positions) for group in groups]
    return len(groups) >= _LEAST_STAGES and all(later < earlier for earlier, later in pairwise(positions))


def _against_one(
    staged: Side, groups: list[list[int]], single: Side, single_groups: list[list[int]], flipped: bool
) -> StagePairs:
    """The ends of stages against the blocks of one stack at the published depths."""
    groups = groups[-len(STAGE_FRACTIONS) :]
    stack = single.units[single_groups[0][-1]]
    if len(stack.elements) < len(groups):
        return []
    found: StagePairs = []
    for group, index in zip(groups, stage_indices(len(stack.elements), len(groups)), strict=True):
        position, other = group[-1], single_groups[0][-1]
        pair = (_stage_node(staged, position), stack.elements[index])
        if flipped:
            found.append((other, position, [(pair[1], pair[0])]))
        else:
            found.append((position, other, [pair]))
    return found


def _stage_node(side: Side, position: int) -> int:
    """What stands for a stage: the called module that holds just its blocks, else its last block."""
    unit = side.units[position]
    tree = side.tree
    if tree.call[unit.node] >= 0 and len(tree.children[unit.node]) == len(unit.elements) and unit.node > 0:
        return unit.node
    return unit.last
