"""Parallel branches: what runs side by side may run in another order in the other model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.analysis.alignment.dataflow import DataFlow
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs
from tb_plugin_structure.analysis.alignment.stacks import Unit
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

_GAIN = 0.05
"""By how much another order must fit better before it is taken."""

_LEAST_FIT = 0.45
"""Share of a strand's substance that its partner must fit: branches are put in order only where they are the same."""

_LEFT_OVER = 0.1
"""What each unit of substance counts against a pair of strands when the other strand has nothing for it."""

_MOST_UNITS = 400
_MOST_STRANDS = 10


@dataclass(frozen=True)
class Fork:
    """Strands that follow one another in time but not in data: each [begin, end) of unit positions."""

    strands: tuple[tuple[int, int], ...]

    @property
    def begin(self) -> int:
        return self.strands[0][0]

    @property
    def end(self) -> int:
        return self.strands[-1][1]


@dataclass(frozen=True)
class Branches:
    """How branches correspond.

    order: the student's units in an order that follows the teacher's branches.
    allowed: [teacher units, student units], False between branches that do not correspond.
    """

    order: list[int]
    allowed: Array


def forks(flow: DataFlow, scope: int, units: list[Unit]) -> list[Fork]:
    """Places where consecutive strands of units start from one tensor, or from what comes from outside the scope."""
    tree = flow.tree
    sources = _sources(tree, flow, scope, units)
    readers = Counter(sources)
    starts = [k for k, source in enumerate(sources) if k == 0 or source != frozenset((k - 1,)) or readers[source] > 1]
    found: list[Fork] = []
    run: list[tuple[int, int]] = []
    for place, begin in enumerate(starts):
        end = starts[place + 1] if place + 1 < len(starts) else len(units)
        if run and sources[begin] and sources[begin] == sources[run[0][0]]:
            run.append((begin, end))
            continue
        if len(run) > 1:
            found.append(Fork(tuple(run)))
        run = [(begin, end)]
    if len(run) > 1:
        found.append(Fork(tuple(run)))
    return found


def _sources(tree: Tree, flow: DataFlow, scope: int, units: list[Unit]) -> list[frozenset[int]]:
    """For each unit the units (or the outside) that what it reads first comes from."""
    ranges = [(unit.first, unit.last + tree.size[unit.last]) for unit in units]
    made = {_returns(tree, unit.last): place for place, unit in enumerate(units)}
    found = []
    for unit in units:
        tensor = _reads(tree, unit.first)
        found.append(flow.sources(tensor, scope, ranges, made) if tensor >= 0 else frozenset())
    return found


def pair_branches(
    teacher_forks: list[Fork], student_forks: list[Fork], matrix: Array, substance_t: Array, substance_s: Array
) -> Branches | None:
    """Which branches correspond, where another order fits better; None when the order they ran in fits as well.

    Args:
        teacher_forks: Of the teacher's units.
        student_forks: Of the student's units.
        matrix: Scores [teacher units, student units].
        substance_t: Substance of the teacher's units.
        substance_s: Substance of the student's units.
    """
    if not teacher_forks or not student_forks or max(matrix.shape) > _MOST_UNITS:
        return None
    order = list(range(len(substance_s)))
    allowed = np.ones(matrix.shape, bool)
    fits = {
        (a, b): _assignment(other, fork, matrix, substance_t, substance_s)
        for a, other in enumerate(teacher_forks)
        for b, fork in enumerate(student_forks)
        if max(len(other.strands), len(fork.strands)) <= _MOST_STRANDS
        and abs(len(other.strands) - len(fork.strands)) <= 1
    }
    totals = np.full((len(teacher_forks), len(student_forks)), -np.inf)
    for pair, found in fits.items():
        totals[pair] = found.total
    found_some = False
    for (a, b), found in fits.items():
        if found.gain < _GAIN or not found.complete:
            continue
        rivals = np.concatenate([np.delete(totals[a], b), np.delete(totals[:, b], a)])
        if (found.total <= rivals).any():
            continue
        found_some = True
        other, fork = teacher_forks[a], student_forks[b]
        order[fork.begin : fork.end] = found.units
        allowed[other.begin : other.end, fork.begin : fork.end] = False
        for strand_s, strand_t in found.partner.items():
            allowed[slice(*other.strands[strand_t]), slice(*fork.strands[strand_s])] = True
    return Branches(order, allowed) if found_some else None


@dataclass(frozen=True)
class _Assignment:
    """An order of a fork's strands: how well it fits, by how much better than as it ran, and the units in it."""

    total: float
    gain: float
    units: list[int]
    partner: dict[int, int]
    """Strand of the student -> strand of the teacher."""
    complete: bool
    """Whether every strand of the side with fewer has a partner that fits it."""


def _assignment(teacher: Fork, student: Fork, matrix: Array, substance_t: Array, substance_s: Array) -> _Assignment:
    """The best order of the student's strands against one fork of the teacher."""
    fit = np.array(
        [
            [
                _total(matrix[slice(*strand_t), slice(*strand_s)])
                - _LEFT_OVER * abs(_mass(substance_t, strand_t) - _mass(substance_s, strand_s))
                for strand_s in student.strands
            ]
            for strand_t in teacher.strands
        ]
    )
    straight = sum(float(fit[a, b]) for a, b in monotone_pairs(fit))
    free, partner = _best_assignment(fit)
    gain = free - straight
    complete = len(partner) == min(len(teacher.strands), len(student.strands)) and all(
        fit[a, b] >= _LEAST_FIT * max(_mass(substance_t, teacher.strands[a]), _mass(substance_s, student.strands[b]))
        for b, a in partner.items()
    )
    ranks = sorted(range(len(student.strands)), key=lambda b: (partner.get(b, len(teacher.strands)), b))
    units = [unit for b in ranks for unit in range(*student.strands[b])]
    return _Assignment(free, gain, units, partner, complete)


def _best_assignment(fit: Array) -> tuple[float, dict[int, int]]:
    """The largest sum of one-to-one pairs, and column -> row. Among equal sums, the order as it is."""
    rows, columns = fit.shape
    best: dict[int, tuple[float, int, tuple[int, ...]]] = {0: (0.0, 0, ())}
    for b in range(columns):
        grown = dict(best)
        for used, (total, crossings, chosen) in best.items():
            for a in range(rows):
                if used >> a & 1 or fit[a, b] <= 0:
                    continue
                crossed = crossings + sum(1 for earlier in range(a + 1, rows) if used >> earlier & 1)
                found = (round(total + float(fit[a, b]), 9), crossed, (*chosen, b * rows + a))
                key = used | 1 << a
                if key not in grown or (found[0], -found[1]) > (grown[key][0], -grown[key][1]):
                    grown[key] = found
        best = grown
    total, _, chosen = max(best.values(), key=lambda entry: (entry[0], -entry[1]))
    return total, {code // rows: code % rows for code in chosen}


def _mass(substance: Array, strand: tuple[int, int]) -> float:
    return float(substance[strand[0] : strand[1]].sum())


def _total(piece: Array) -> float:
    return sum(float(piece[i, j]) for i, j in monotone_pairs(piece))


def _reads(tree: Tree, node: int) -> int:
    while tree.call[node] < 0:
        node = tree.children[node][0]
    inputs = tree.input_tensors[tree.call[node]]
    return inputs[0] if inputs else -1


def _returns(tree: Tree, node: int) -> int:
    while tree.call[node] < 0:
        node = tree.children[node][-1]
    outputs = tree.output_tensors[tree.call[node]]
    return outputs[0] if outputs else -1
