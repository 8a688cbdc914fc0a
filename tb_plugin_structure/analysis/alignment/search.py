"""Pairs of units of one scope: stages and pins first, then dynamic programming between them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from tb_plugin_structure.analysis.alignment import blocks
from tb_plugin_structure.analysis.alignment.branches import Branches, forks, pair_branches
from tb_plugin_structure.analysis.alignment.evidence import STACK_SUBSTANCE, Side, describe, scores
from tb_plugin_structure.analysis.alignment.fusing import fuse
from tb_plugin_structure.analysis.alignment.holding import PinnedNodes
from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE
from tb_plugin_structure.analysis.alignment.paired_units import LEAST_SUBSTANCE, Search
from tb_plugin_structure.analysis.alignment.pieces import MOST_CELLS, pair_in_pieces
from tb_plugin_structure.analysis.alignment.roles import is_opaque, name_similarity
from tb_plugin_structure.analysis.alignment.same_names import crossing_names
from tb_plugin_structure.analysis.alignment.sequence import compatible, longest_rising, monotone_pairs
from tb_plugin_structure.analysis.alignment.sliding import slide
from tb_plugin_structure.analysis.alignment.stacks import Unit
from tb_plugin_structure.analysis.alignment.stages import StagePairs, anchor_stages
from tb_plugin_structure.analysis.alignment.weights import EQUAL_WEIGHTS, correlations
from tb_plugin_structure.records.table import Array

_WEIGHT_BONUS = 2.0
_MOVED_SCORE = 0.5
_LEAST_EVIDENCE = 0.33
"""Score per substance below which two leaves are left without counterpart: measured, such pairs were wrong."""


def search(
    teacher: blocks.Side,
    student: blocks.Side,
    node_t: int,
    node_s: int,
    top: bool,
    pins: PinnedNodes | None = None,
    opened_t: Collection[int] = (),
    opened_s: Collection[int] = (),
    parts: Collection[tuple[int, int]] = (),
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
        parts: Composites that are paired already, with all that is in them.
    """
    units_t, units_s = _units(teacher, student, node_t, node_s, top, pins, opened_t, opened_s, parts)
    members_t: dict[int, list[int]] = {}
    members_s: dict[int, list[int]] = {}
    named_alike = teacher.signatures.named[node_t] == student.signatures.named[node_s] and len(units_t) == len(units_s)
    equal = pins is None and named_alike
    if pins is None and not equal:
        units_t, units_s, members_t, members_s = fuse(teacher.tree, student.tree, units_t, units_s)
    side_t = describe(teacher.features, node_t, units_t)
    side_s = describe(student.features, node_s, units_s)
    found = Search(side_t, side_s, members_t, members_s)
    if len(units_t) * len(units_s) > MOST_CELLS and equal:
        _pair_equal(found, None)
        return found
    if len(units_t) * len(units_s) > MOST_CELLS and pins is None:
        pair_in_pieces(teacher, student, found, top)
        return found
    plain = scores(side_t, side_s, small_scope=not top)
    if equal:
        matrix = plain.copy()
        _add_weights(teacher, student, side_t, side_s, matrix)
        raised = matrix > plain
        if (raised.diagonal() == raised.any(axis=1)).all():  # no weights say that units changed places
            _pair_equal(found, plain)
            return found
    order = None
    branches = _branches(teacher, student, node_t, node_s, side_t, side_s, top) if pins is None else None
    if branches is not None:
        order = branches.order
        side_s = describe(student.features, node_s, [units_s[k] for k in order])
        found.side_s = side_s
        plain = np.where(branches.allowed[:, order], scores(side_t, side_s, small_scope=not top), 0.0)
    matrix = plain.copy()
    _add_weights(teacher, student, side_t, side_s, matrix)
    if pins is not None:
        found.held = pins.hold(node_t, node_s, units_t, units_s, matrix)
    fixed, found.stage_only = anchor_stages(side_t, side_s, matrix)
    _keep_to_stages(found.stage_only, matrix, plain)
    stayed, moved = crossing_names(side_t, side_s) if pins is None and order is None else ([], [])
    for i, j in moved:
        matrix[i, :] = matrix[:, j] = 0.0
    found.pairs = _between(matrix, compatible(compatible(found.held.fixed, fixed), stayed))
    found.pairs = slide(side_t, side_s, found.pairs, matrix, found.held.fixed)
    found.pairs = [pair for pair in found.pairs if _has_evidence(found, matrix, *pair)]
    found.moved = [*moved, *_moved(found, matrix)]
    if order is not None:
        kept = {found.pairs[place] for place in longest_rising([order[j] for _, j in found.pairs])}
        found.moved = [pair for pair in found.pairs if pair not in kept] + found.moved
        found.pairs = [pair for pair in found.pairs if pair in kept]
    paired = [*found.pairs, *found.moved]
    found.fits.update(zip(paired, _fits(side_t, side_s, plain, paired), strict=True))
    found.total = float(sum(matrix[i, j] for i, j in found.pairs)) + STACK_SUBSTANCE * len(found.stage_only)
    return found


def _keep_to_stages(stage_only: StagePairs, matrix: Array, plain: Array) -> None:
    """Nothing is paired with a unit of an unlike stage, nor, unless its weights say so, across the order of the stages:
    the norm behind a transformer's last block is not the one in the stem of a network with stages."""
    told = matrix > plain  # by weights
    for i, j, _ in stage_only:
        matrix[:i, j + 1 :] *= told[:i, j + 1 :]
        matrix[i + 1 :, :j] *= told[i + 1 :, :j]
        matrix[i, :] = matrix[:, j] = 0.0


def _pair_equal(found: Search, plain: Array | None) -> None:
    """Pair every unit of a scope with the same unit of an equal scope."""
    found.equal = True
    found.pairs = [(k, k) for k in range(len(found.side_t.units))]
    fits = [(1.0, 0.0)] * len(found.pairs)
    if plain is not None:
        fits = _fits(found.side_t, found.side_s, plain, found.pairs)
    found.fits.update(zip(found.pairs, fits, strict=True))
    found.total = float(sum(substance * fit for substance, (fit, _) in zip(found.side_t.substance, fits, strict=True)))


def _branches(
    teacher: blocks.Side, student: blocks.Side, node_t: int, node_s: int, side_t: Side, side_s: Side, top: bool
) -> Branches | None:
    """Which parallel branches correspond; None to leave them as they ran."""
    forks_t, forks_s = forks(teacher.flow, node_t, side_t.units), forks(student.flow, node_s, side_s.units)
    if not forks_t or not forks_s:
        return None
    # Where a branch stands says nothing here.
    anywhere_t = replace(side_t, place=np.zeros(len(side_t.units)))
    anywhere_s = replace(side_s, place=np.zeros(len(side_s.units)))
    matrix = scores(anywhere_t, anywhere_s, small_scope=not top)
    return pair_branches(forks_t, forks_s, matrix, side_t.substance, side_s.substance)


def _has_evidence(found: Search, matrix: Array, i: int, j: int) -> bool:
    """Whether more than a shared kind and position speaks for a pair of leaves; stacks and what is pinned are kept.

    Between unlike families, what passes its input through has no counterpart unless it has the same name.
    """
    side_t, side_s = found.side_t, found.side_s
    if side_t.is_stack[i] or side_s.is_stack[j] or (i, j) in found.held.fixed:
        return True
    substance = max(min(float(side_t.substance[i]), float(side_s.substance[j])), LEAST_SUBSTANCE)
    name_t, name_s = side_t.names[i], side_s.names[j]
    if found.stage_only and substance <= SUBSTANCE["dropout"] and name_t != name_s:
        return False
    if substance <= SUBSTANCE["identity"] and name_similarity(name_t, name_s) == 0 and _both_tell(name_t, name_s):
        return False  # nothing is left of either, and their names are not alike
    return float(matrix[i, j]) >= _LEAST_EVIDENCE * substance


def _both_tell(first: str, second: str) -> bool:
    return not (is_opaque(first) or is_opaque(second))


def _fits(side_t: Side, side_s: Side, plain: Array, pairs: list[tuple[int, int]]) -> list[tuple[float, float]]:
    """For each pair of units its score per substance, and the best score that either had elsewhere."""
    if not pairs:
        return []
    i, j = np.array(pairs).T
    substance = np.maximum(np.minimum(side_t.substance[i], side_s.substance[j]), LEAST_SUBSTANCE)
    rows, columns, each = plain[i], plain[:, j], np.arange(len(pairs))
    rows[each, j] = columns[i, each] = 0.0
    rivals = np.maximum(rows.max(axis=1), columns.max(axis=0))
    found = zip((plain[i, j] / substance).tolist(), (np.maximum(rivals, 0.0) / substance).tolist(), strict=True)
    return list(found)


def _moved(found: Search, matrix: Array) -> list[tuple[int, int]]:
    """Leftovers paired across the order, where the evidence is strong."""
    side_t, side_s = found.side_t, found.side_s
    used_t = {i for i, _ in found.pairs} | {i for i, _, _ in found.stage_only} | found.held.used_t
    used_s = {j for _, j in found.pairs} | {j for _, j, _ in found.stage_only} | found.held.used_s
    free_t = [i for i in range(matrix.shape[0]) if i not in used_t]
    free_s = [j for j in range(matrix.shape[1]) if j not in used_s]
    if not free_t or not free_s:
        return []
    substance = np.minimum(side_t.substance[free_t][:, None], side_s.substance[free_s][None, :])
    score = matrix[np.ix_(free_t, free_s)] / np.maximum(substance, LEAST_SUBSTANCE)
    strong = (score > _MOVED_SCORE) & ((substance > 0.3) | (score > 0.8))
    candidates = sorted((-float(score[a, b]), free_t[a], free_s[b]) for a, b in np.argwhere(strong).tolist())
    chosen: list[tuple[int, int]] = []
    for _, i, j in candidates:
        if i not in used_t and j not in used_s:
            used_t.add(i)
            used_s.add(j)
            chosen.append((i, j))
    return chosen


def _units(
    teacher: blocks.Side, student: blocks.Side, node_t: int, node_s: int, top: bool, pins: PinnedNodes | None,
    opened_t: Collection[int], opened_s: Collection[int], parts: Collection[tuple[int, int]],
) -> tuple[list[Unit], list[Unit]]:  # fmt: skip
    parts_t, parts_s = {part for part, _ in parts}, {part for _, part in parts}
    closed_t = parts_t | set(pins.named_t if pins is not None else ())
    closed_s = parts_s | set(pins.named_s if pins is not None else ())
    units_t = _without(parts_t, teacher.folding.units(node_t, None, closed_t, opened_t))
    units_s = _without(parts_s, student.folding.units(node_s, None, closed_s, opened_s))
    if not top or len(units_t) * len(units_s) > MOST_CELLS:
        return units_t, units_s
    bags_t, bags_s = teacher.folding.bags(units_t), student.folding.bags(units_s)
    return (
        _without(parts_t, teacher.folding.units(node_t, bags_s, closed_t, opened_t)),
        _without(parts_s, student.folding.units(node_s, bags_t, closed_s, opened_s)),
    )


def _without(parts: Collection[int], units: list[Unit]) -> list[Unit]:
    return [unit for unit in units if unit.is_stack or unit.node not in parts] if parts else units


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
