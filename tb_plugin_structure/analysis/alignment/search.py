"""Pairs of units of one scope: stages and pins first, then dynamic programming between them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.analysis.alignment import blocks
from tb_plugin_structure.analysis.alignment.evidence import STACK_SUBSTANCE, Side, describe, scores
from tb_plugin_structure.analysis.alignment.fusing import fuse
from tb_plugin_structure.analysis.alignment.holding import Held, PinnedNodes
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs, unique_anchors
from tb_plugin_structure.analysis.alignment.stacks import Unit
from tb_plugin_structure.analysis.alignment.stages import StagePairs, anchor_stages
from tb_plugin_structure.analysis.alignment.weights import EQUAL_WEIGHTS, correlations
from tb_plugin_structure.records.table import Array

_WEIGHT_BONUS = 2.0
_LEAST_SUBSTANCE = 0.05
_MOVED_SCORE = 0.5
_MOST_CELLS = 4_000_000
"""Above this many pairs of units, unique subtrees cut the sequences into pieces first."""


@dataclass
class Search:
    """The units of one scope and how they were paired.

    plain: scores without the weight bonus, [teacher units, student units].
    matrix: the scores that decided.
    """

    side_t: Side
    side_s: Side
    plain: Array
    matrix: Array
    members_t: dict[int, list[int]]
    members_s: dict[int, list[int]]
    held: Held
    pairs: list[tuple[int, int]]
    stage_only: StagePairs

    def lone(self) -> tuple[set[int], set[int]]:
        """Blocks that were kept whole though nothing on the other side is like them."""
        used_t = {i for i, _ in self.pairs} | {i for i, _, _ in self.stage_only}
        used_s = {j for _, j in self.pairs} | {j for _, j, _ in self.stage_only}
        return (
            {unit.first for i, unit in enumerate(self.side_t.units) if len(unit.elements) == 1 and i not in used_t},
            {unit.first for j, unit in enumerate(self.side_s.units) if len(unit.elements) == 1 and j not in used_s},
        )

    def total(self) -> float:
        found = float(sum(self.matrix[i, j] for i, j in self.pairs))
        return found + STACK_SUBSTANCE * len(self.stage_only)

    def fit(self, i: int, j: int) -> tuple[float, float]:
        """Score of a pair of units per substance, and the best score that either had elsewhere."""
        substance = max(min(float(self.side_t.substance[i]), float(self.side_s.substance[j])), _LEAST_SUBSTANCE)
        row, column = self.plain[i].copy(), self.plain[:, j].copy()
        row[j] = column[i] = 0.0
        rival = float(max(row.max(initial=0.0), column.max(initial=0.0)))
        return float(self.plain[i, j]) / substance, rival / substance

    def moved(self) -> list[tuple[int, int]]:
        """Leftovers paired across the order, where the evidence is strong."""
        used_t = {i for i, _ in self.pairs} | {i for i, _, _ in self.stage_only} | self.held.used_t
        used_s = {j for _, j in self.pairs} | {j for _, j, _ in self.stage_only} | self.held.used_s
        free_t = [i for i in range(self.matrix.shape[0]) if i not in used_t]
        free_s = [j for j in range(self.matrix.shape[1]) if j not in used_s]
        if not free_t or not free_s:
            return []
        piece = self.matrix[np.ix_(free_t, free_s)]
        substance = np.minimum(self.side_t.substance[free_t][:, None], self.side_s.substance[free_s][None, :])
        score = piece / np.maximum(substance, _LEAST_SUBSTANCE)
        strong = (score > _MOVED_SCORE) & ((substance > 0.3) | (score > 0.8))
        candidates = sorted((-float(score[a, b]), free_t[a], free_s[b]) for a, b in np.argwhere(strong).tolist())
        chosen: list[tuple[int, int]] = []
        for _, i, j in candidates:
            if i not in used_t and j not in used_s:
                used_t.add(i)
                used_s.add(j)
                chosen.append((i, j))
        return chosen


def search(
    teacher: blocks.Side,
    student: blocks.Side,
    node_t: int,
    node_s: int,
    top: bool,
    pins: PinnedNodes | None = None,
    opened_t: Collection[int] = (),
    opened_s: Collection[int] = (),
) -> Search:
    """Pair the units below two nodes.

    Args:
        teacher: The teacher.
        student: The student.
        node_t: Scope of the teacher.
        node_s: Scope of the student.
        top: Whether the scopes are the models: only there are stages and single blocks kept whole.
        pins: Pins, when some lie inside.
        opened_t: Single blocks that are not kept whole.
        opened_s: The same of the student.
    """
    units_t, units_s = _units(teacher, student, node_t, node_s, top, pins, opened_t, opened_s)
    members_t: dict[int, list[int]] = {}
    members_s: dict[int, list[int]] = {}
    if pins is None:
        units_t, units_s, members_t, members_s = fuse(teacher.tree, student.tree, units_t, units_s)
    codes: dict[object, int] = {}
    side_t = describe(teacher.tree, teacher.signatures, node_t, units_t, codes)
    side_s = describe(student.tree, student.signatures, node_s, units_s, codes)
    anchors: list[tuple[int, int]] = []
    if len(units_t) * len(units_s) > _MOST_CELLS:
        anchors = unique_anchors(_subtrees(teacher, units_t), _subtrees(student, units_s))
    plain = scores(side_t, side_s, small_scope=not top)
    matrix = plain.copy()
    _add_weights(teacher, student, side_t, side_s, matrix)
    held = pins.hold(node_t, node_s, units_t, units_s, matrix) if pins is not None else Held()
    fixed, stage_only = anchor_stages(side_t, side_s, matrix)
    fixed = _compatible(_compatible(held.fixed, fixed), anchors)
    for i, j, _ in stage_only:
        matrix[i, :] = matrix[:, j] = 0.0
    pairs = _between(matrix, fixed)
    return Search(side_t, side_s, plain, matrix, members_t, members_s, held, pairs, stage_only)


def _units(
    teacher: blocks.Side, student: blocks.Side, node_t: int, node_s: int, top: bool, pins: PinnedNodes | None,
    opened_t: Collection[int], opened_s: Collection[int],
) -> tuple[list[Unit], list[Unit]]:  # fmt: skip
    closed_t = set(pins.named_t) if pins is not None else set()
    closed_s = set(pins.named_s) if pins is not None else set()
    units_t = teacher.folding.units(node_t, None, closed_t)
    units_s = student.folding.units(node_s, None, closed_s)
    if not top:
        return units_t, units_s
    bags_t, bags_s = teacher.folding.bags(units_t), student.folding.bags(units_s)
    return (
        teacher.folding.units(node_t, bags_s, closed_t, opened_t),
        student.folding.units(node_s, bags_t, closed_s, opened_s),
    )


def _subtrees(side: blocks.Side, units: list[Unit]) -> list[int]:
    return [side.signatures.named[unit.last] for unit in units]


def _between(matrix: Array, fixed: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Monotone pairs that keep to fixed ones."""
    pairs: list[tuple[int, int]] = []
    last_i = last_j = -1
    for i, j in [*fixed, matrix.shape]:
        if i > last_i + 1 and j > last_j + 1:
            piece = matrix[last_i + 1 : i, last_j + 1 : j]
            pairs += [(last_i + 1 + a, last_j + 1 + b) for a, b in monotone_pairs(piece)]
        if i < matrix.shape[0]:
            pairs.append((i, j))
        last_i, last_j = i, j
    return pairs


def _compatible(sure: list[tuple[int, int]], proposed: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`sure` and those of `proposed` that neither cross nor share a unit with them."""
    return sorted([*sure, *(pair for pair in proposed if all((pair[0] - i) * (pair[1] - j) > 0 for i, j in sure))])


def _add_weights(teacher: blocks.Side, student: blocks.Side, side_t: Side, side_s: Side, matrix: Array) -> None:
    """Raise the score of leaves whose first sampled tensors are the same."""
    place_t, rows_t = _sampled(teacher, side_t)
    place_s, rows_s = _sampled(student, side_s)
    if not place_t or not place_s:
        return
    found = correlations(teacher.sketches, student.sketches, np.array(rows_t), np.array(rows_s))
    cells = np.ix_(place_t, place_s)
    matrix[cells] += np.where((np.nan_to_num(found) > EQUAL_WEIGHTS) & (matrix[cells] > 0), _WEIGHT_BONUS, 0.0)


def _sampled(model: blocks.Side, side: Side) -> tuple[list[int], list[int]]:
    """Positions of leaves with a sampled tensor, and the parameter rows."""
    places: list[int] = []
    rows: list[int] = []
    for place, unit in enumerate(side.units):
        if unit.is_stack:
            continue
        usable = [row for row in model.tree.own_parameters[model.tree.module[unit.node]] if model.sketches.usable[row]]
        if usable:
            places.append(place)
            rows.append(usable[0])
    return places, rows
