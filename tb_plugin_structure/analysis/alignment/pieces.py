"""Very long sequences of units: equal subtrees that are unique cut them, and what is left between is paired exactly."""

from __future__ import annotations

import numpy as np

from tb_plugin_structure.analysis.alignment import blocks
from tb_plugin_structure.analysis.alignment.evidence import scores, scores_of
from tb_plugin_structure.analysis.alignment.numbering import ranked
from tb_plugin_structure.analysis.alignment.paired_units import LEAST_SUBSTANCE, Search
from tb_plugin_structure.analysis.alignment.sequence import compatible, monotone_pairs_of_many, unique_anchors
from tb_plugin_structure.analysis.alignment.stages import anchor_stages

MOST_CELLS = 500_000
"""Above this many pairs of units, unique subtrees cut the sequences into pieces first."""

_PIECE_CELLS = 60_000

Gap = tuple[int, int, int, int]
"""[begin, end) of the teacher's units, and of the student's."""


def pair_in_pieces(teacher: blocks.Side, student: blocks.Side, found: Search, top: bool) -> None:
    """Pair very long sequences: unique equal subtrees cut them, and what is left between is paired piece by piece."""
    side_t, side_s = found.side_t, found.side_s
    stacks_t = [i for i, unit in enumerate(side_t.units) if unit.is_stack]
    stacks_s = [j for j, unit in enumerate(side_s.units) if unit.is_stack]
    fixed: list[tuple[int, int]] = []
    if stacks_t and stacks_s:
        picked_t, picked_s = side_t.pick(stacks_t), side_s.pick(stacks_s)
        ends, stage_only = anchor_stages(picked_t, picked_s, scores(picked_t, picked_s, small_scope=not top))
        fixed = [(stacks_t[i], stacks_s[j]) for i, j in ends]
        found.stage_only = [(stacks_t[i], stacks_s[j], pairs) for i, j, pairs in stage_only]
    for strength in ("named", "sized", "shape_free"):
        fixed = compatible(fixed, _anchors_between(teacher, student, found, fixed, strength))
    gaps: list[Gap] = []
    last_i = last_j = -1
    for i, j in [*fixed, (len(side_t.units), len(side_s.units))]:
        gaps += _cut(last_i + 1, i, last_j + 1, j)
        last_i, last_j = i, j
    found.fits.update(dict.fromkeys(fixed, (1.0, 0.0)))
    found.total += float(side_t.substance[[i for i, _ in fixed]].sum())
    inside = _pairs_in_gaps(found, gaps, small_scope=not top)
    found.pairs = sorted([*fixed, *inside])


def _pairs_in_gaps(found: Search, gaps: list[Gap], small_scope: bool) -> list[tuple[int, int]]:
    """Pairs in each gap; the scores of many gaps are found at once."""
    pairs: list[tuple[int, int]] = []
    cells = [(b - a) * (d - c) for a, b, c, d in gaps]
    begin = 0
    while begin < len(gaps):
        end, total = begin + 1, cells[begin]
        while end < len(gaps) and total + cells[end] <= MOST_CELLS:
            total += cells[end]
            end += 1
        pairs += _pairs_in_some_gaps(found, gaps[begin:end], small_scope)
        begin = end
    return pairs


def _pairs_in_some_gaps(found: Search, gaps: list[Gap], small_scope: bool) -> list[tuple[int, int]]:
    side_t, side_s = found.side_t, found.side_s
    a, b, c, d = np.array(gaps, np.int64).T
    rows, columns = b - a, d - c
    ends = np.cumsum(rows * columns)
    begins = ends - rows * columns
    gap = np.repeat(np.arange(len(gaps)), rows * columns)
    row, column = np.divmod(np.arange(int(ends[-1])) - begins[gap], columns[gap])
    i, j = a[gap] + row, c[gap] + column
    # Most units lie between the gaps; they are not looked at.
    units_t, unit_t = ranked(i)
    units_s, unit_s = ranked(j)
    picked_t, picked_s = side_t.pick(units_t.tolist()), side_s.pick(units_s.tolist())
    flat = scores_of(picked_t, picked_s, unit_t, unit_s, small_scope)
    of_gap, row, column = monotone_pairs_of_many(flat, rows, columns)
    chosen = begins[of_gap] + row * columns[of_gap] + column
    score = flat[chosen]
    found.total += float(score.sum())
    # The best score that either unit of a pair had elsewhere in its gap.
    flat[chosen] = 0.0
    elsewhere_t, elsewhere_s = np.zeros(len(side_t.units)), np.zeros(len(side_s.units))
    np.maximum.at(elsewhere_t, i, flat)
    np.maximum.at(elsewhere_s, j, flat)
    i, j = i[chosen], j[chosen]
    substance = np.maximum(np.minimum(side_t.substance[i], side_s.substance[j]), LEAST_SUBSTANCE)
    rivals = np.maximum(elsewhere_t[i], elsewhere_s[j]) / substance
    pairs = list(zip(i.tolist(), j.tolist(), strict=True))
    found.fits.update(zip(pairs, zip((score / substance).tolist(), rivals.tolist(), strict=True), strict=True))
    return pairs


def _anchors_between(
    teacher: blocks.Side, student: blocks.Side, found: Search, fixed: list[tuple[int, int]], strength: str
) -> list[tuple[int, int]]:
    """Subtrees that are unique and equal within the gaps that `fixed` leaves."""
    numbers_t: list[int] = np.array(getattr(teacher.signatures, strength))[found.side_t.last].tolist()
    numbers_s: list[int] = np.array(getattr(student.signatures, strength))[found.side_s.last].tolist()
    anchors: list[tuple[int, int]] = []
    last_i = last_j = -1
    for i, j in [*fixed, (len(numbers_t), len(numbers_s))]:
        if (i - last_i) * (j - last_j) > _PIECE_CELLS:
            inside = unique_anchors(numbers_t[last_i + 1 : i], numbers_s[last_j + 1 : j])
            anchors += [
                (last_i + 1 + a, last_j + 1 + b)
                for a, b in inside
                if found.side_t.units[last_i + 1 + a].is_stack == found.side_s.units[last_j + 1 + b].is_stack
            ]
        last_i, last_j = i, j
    return anchors


def _cut(a: int, b: int, c: int, d: int) -> list[Gap]:
    """A gap in proportional pieces that are small enough to be solved exactly."""
    if a >= b or c >= d:
        return []
    pieces = min(b - a, d - c, -(-((b - a) * (d - c)) // _PIECE_CELLS))
    if pieces == 1:
        return [(a, b, c, d)]
    cut_t = np.linspace(a, b, pieces + 1).astype(int).tolist()
    cut_s = np.linspace(c, d, pieces + 1).astype(int).tolist()
    return [(cut_t[k], cut_t[k + 1], cut_s[k], cut_s[k + 1]) for k in range(pieces)]
