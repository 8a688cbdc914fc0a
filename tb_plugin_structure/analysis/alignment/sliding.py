"""A gap in an alignment of leaves often may begin earlier or later at nearly the same score; it is put where composites
begin and end, as good text diffs put gaps at the ends of paragraphs."""

from __future__ import annotations

from collections.abc import Collection

from tb_plugin_structure.analysis.alignment.evidence import Side
from tb_plugin_structure.records.table import Array

Pair = tuple[int, int]


def slide(side_t: Side, side_s: Side, pairs: list[Pair], scores: Array, fixed: Collection[Pair] = ()) -> list[Pair]:
    """Monotone pairs in which leaves without weights stay with what they stand beside.

    Three layers in a block of the teacher and three in a shorter student: when the student's first two are paired with
    the first two of a teacher's block, and its last, an activation, with that of the block after next, then the last
    goes back to the others. A leaf with weights of its own stays: names and weights speak for it.

    Args:
        side_t: Teacher's units.
        side_s: Student's units.
        pairs: (teacher's unit, student's unit), both rising.
        scores: [teacher's units, student's units]; only positive ones may be paired.
        fixed: Pairs that must stay.
    """
    pairs = list(pairs)
    used_t, used_s = {i for i, _ in pairs}, {j for _, j in pairs}
    for step, places in ((1, range(1, len(pairs))), (-1, range(len(pairs) - 2, -1, -1))):
        for place in places:
            (i, j), (near_i, near_j) = pairs[place], pairs[place - step]
            if (i, j) in fixed or not _moves(side_t, i) or not _moves(side_s, j):
                continue
            wanted = (near_i + step, near_j + step)
            if wanted == (i, j) or not (0 <= wanted[0] < len(side_t.units) and 0 <= wanted[1] < len(side_s.units)):
                continue
            stays_t, stays_s = wanted[0] == i, wanted[1] == j
            if not (stays_t or stays_s):
                continue
            free = wanted[0] not in used_t if stays_s else wanted[1] not in used_s
            together = _together(side_t, near_i, wanted[0]) and _together(side_s, near_j, wanted[1])
            apart = not (_together(side_t, near_i, i) and _together(side_s, near_j, j))
            if free and together and apart and scores[wanted] > 0 and _same_kind(side_t, side_s, i, j, wanted):
                pairs[place] = wanted
                used_t.symmetric_difference_update({i, wanted[0]} if stays_s else ())
                used_s.symmetric_difference_update({j, wanted[1]} if stays_t else ())
    return pairs


def _moves(side: Side, unit: int) -> bool:
    """Whether a unit is a leaf without parameters of its own."""
    if side.is_stack[unit]:
        return False
    tree = side.tree
    return not tree.own_parameters[tree.module[side.units[unit].node]]


def _together(side: Side, first: int, second: int) -> bool:
    """Whether two leaves lie in one composite."""
    if side.is_stack[first] or side.is_stack[second]:
        return False
    return side.tree.parent[side.units[first].node] == side.tree.parent[side.units[second].node]


def _same_kind(side_t: Side, side_s: Side, i: int, j: int, wanted: Pair) -> bool:
    return bool(side_t.kind[i] == side_t.kind[wanted[0]] and side_s.kind[j] == side_s.kind[wanted[1]])
