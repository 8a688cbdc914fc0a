"""Operators inside paired calls, aligned in execution order: anchors first, then the gaps between them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tb_plugin_structure.analysis.alignment.operator_labels import LEVELS, OperatorLabels
from tb_plugin_structure.analysis.alignment.pair_kinds import (
    DELETED,
    IDENTICAL,
    INSERTED,
    RECONFIGURED,
    RESIZED,
    RETYPED,
)
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs_of_many, unique_anchors
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array

_TINY_GAP = 600
"""Pairs of operators up to which a gap between anchors is solved exactly without looking for weaker anchors."""

_MOST_MATCHES = 40_000
"""Pairs of operators of one name up to which a gap is solved exactly when no anchor is left in it."""

Gap = tuple[int, int, int, int]
"""[begin, end) of the teacher's operators, and of the student's."""


@dataclass
class OperatorPairs:
    """Columns as in ``records.schema.ALIGNMENT_OPERATOR_PAIRS``."""

    teacher: Array
    student: Array
    pair: Array
    kind: Array
    confidence: Array


def align_operators(teacher: Structure, student: Structure, paired: list[tuple[int, int, int]]) -> OperatorPairs:
    """Pairs and leftovers of operators.

    Args:
        teacher: The teacher's record.
        student: The student's record.
        paired: (row of the pairs table, teacher call, student call); each call at most once.
    """
    codes: dict[object, int] = {}
    labels_t, labels_s = OperatorLabels(teacher, codes), OperatorLabels(student, codes)
    jobs: dict[tuple[bytes, bytes], int] = {}
    whole: list[Gap] = []
    """The first occurrence of each distinct pair of operator sequences."""
    instances: list[tuple[int, int, int]] = []
    """(position in `whole`, where the teacher's operators begin, where the student's do)."""
    for _, call_t, call_s in paired:
        a, b = labels_t.bounds[call_t], labels_t.bounds[call_t + 1]
        c, d = labels_s.bounds[call_s], labels_s.bounds[call_s + 1]
        if a == b or c == d:
            continue
        key = (labels_t.full[a:b].tobytes(), labels_s.full[c:d].tobytes())
        job = jobs.setdefault(key, len(jobs))
        if job == len(whole):
            whole.append((a, b, c, d))
        instances.append((job, a, c))
    of_job, offset_t, offset_s = align_labels(labels_t, labels_s, whole)
    job, begin_t, begin_s = np.array(instances, np.int64).reshape(-1, 3).T
    first, end = np.searchsorted(of_job, job), np.searchsorted(of_job, job, "right")
    each = np.repeat(np.arange(len(job)), end - first)
    place = np.arange(len(each)) - np.repeat(np.cumsum(end - first) - end, end - first)
    return _columns(labels_t, labels_s, offset_t[place] + begin_t[each], offset_s[place] + begin_s[each], paired)


def _columns(
    labels_t: OperatorLabels, labels_s: OperatorLabels, places_t: Array, places_s: Array,
    paired: list[tuple[int, int, int]],
) -> OperatorPairs:  # fmt: skip
    """Columns of all pairs and of what only one side has, in the order of the pairs table."""
    numbers = np.array(paired, np.int64).reshape(-1, 3)
    number_t = _number_of_place(labels_t, numbers[:, 1], numbers[:, 0])
    number_s = _number_of_place(labels_s, numbers[:, 2], numbers[:, 0])
    alone_t, alone_s = _alone(number_t, places_t), _alone(number_s, places_s)
    same_name = labels_t.name[places_t] == labels_s.name[places_s]
    same_attributes = labels_t.attributes[places_t] == labels_s.attributes[places_s]
    same_shape = labels_t.shape[places_t] == labels_s.shape[places_s]
    kinds = np.where(
        ~same_name, RETYPED, np.where(~same_attributes, RECONFIGURED, np.where(~same_shape, RESIZED, IDENTICAL))
    )
    confidence = 0.55 + 0.25 * same_name + 0.1 * same_attributes + 0.1 * same_shape
    nothing_t, nothing_s = np.full(len(alone_t), -1), np.full(len(alone_s), -1)
    pair = np.concatenate([number_t[places_t], number_t[alone_t], number_s[alone_s]])
    order = np.argsort(pair, kind="stable")
    return OperatorPairs(
        teacher=np.concatenate([labels_t.rows[places_t], labels_t.rows[alone_t], nothing_s])[order],
        student=np.concatenate([labels_s.rows[places_s], nothing_t, labels_s.rows[alone_s]])[order],
        pair=pair[order],
        kind=np.concatenate([kinds, np.full(len(alone_t), DELETED), np.full(len(alone_s), INSERTED)])[order],
        confidence=np.concatenate([confidence, np.full(len(alone_t) + len(alone_s), 0.5)])[order],
    )


def _number_of_place(labels: OperatorLabels, calls: Array, numbers: Array) -> Array:
    """The row of the pairs table for each operator; -1 where its call is not paired."""
    of_call = np.full(len(labels.bounds), -1, np.int64)
    of_call[calls] = numbers
    found: Array = of_call[labels.call]
    return found


def _alone(numbers: Array, places: Array) -> Array:
    """Operators of paired calls that are not paired themselves."""
    free = numbers >= 0
    free[places] = False
    return np.flatnonzero(free)


def align_labels(
    teacher: OperatorLabels, student: OperatorLabels, sequences: Sequence[Gap]
) -> tuple[Array, Array, Array]:
    """Monotone pairs of pairs of operator sequences.

    Operators that are unique in their surroundings become anchors (the strongest surroundings first), runs of equal
    operators grow from them, and what is left between them is solved exactly where it is small.

    Returns:
        (position in `sequences`, offset in the teacher's, offset in the student's) of each pair, in order.
    """
    pairs: list[tuple[int, int, int]] = []
    small: list[tuple[int, int, int, int, int]] = []
    """(position, small gap): all of them are solved at once."""
    fulls_t, fulls_s = teacher.fulls, student.fulls
    for position, whole in enumerate(sequences):
        gaps = [(whole, 0)]
        while gaps:
            (a, b, c, d), level = gaps.pop()
            while a < b and c < d and fulls_t[a] == fulls_s[c]:
                pairs.append((position, a, c))
                a, c = a + 1, c + 1
            while a < b and c < d and fulls_t[b - 1] == fulls_s[d - 1]:
                b, d = b - 1, d - 1
                pairs.append((position, b, d))
            if a >= b or c >= d:
                continue
            if (b - a) * (d - c) <= _TINY_GAP:
                small.append((position, a, b, c, d))
                continue
            if level >= len(LEVELS):
                pairs += [(position, i, j) for i, j in _gap(teacher, student, (a, b, c, d))]
                continue
            last_t, last_s = a, c
            for i, j in unique_anchors(teacher.window(level)[a:b], student.window(level)[c:d]):
                i, j = i + a, j + c
                pairs.append((position, i, j))
                if i > last_t and j > last_s:
                    gaps.append(((last_t, i, last_s, j), level + 1))
                last_t, last_s = i + 1, j + 1
            if last_t < b and last_s < d:
                gaps.append(((last_t, b, last_s, d), level + 1))
    found = np.concatenate([np.array(pairs, np.int64).reshape(-1, 3).T, _small_gaps(teacher, student, small)], axis=1)
    position, i, j = found[:, np.lexsort((found[1], found[0]))]
    begin = np.array(sequences, np.int64).reshape(-1, 4)
    return position, i - begin[position, 0], j - begin[position, 2]


def _small_gaps(
    teacher: OperatorLabels, student: OperatorLabels, gaps: Sequence[tuple[int, int, int, int, int]]
) -> Array:
    """Monotone pairs [3, pairs] in small gaps: operators of one name; equal attributes and shapes and equal neighbours
    weigh more."""
    position, a, b, c, d = np.array(gaps, np.int64).reshape(-1, 5).T
    heights, widths = b - a, d - c
    gap = np.repeat(np.arange(len(gaps)), heights * widths)
    cell = np.arange(len(gap)) - (np.cumsum(heights * widths) - heights * widths)[gap]
    row, column = np.divmod(cell, widths[gap])
    i, j = a[gap] + row, c[gap] + column
    weight = np.where(teacher.full[i] == student.full[j], 10.0, 7.0)
    # Neighbours beyond the ends of a gap do not count.
    before = teacher.name[i - 1] == student.name[j - 1]
    after = np.append(teacher.name, 0)[i + 1] == np.append(student.name, 0)[j + 1]
    weight += (row > 0) & (column > 0) & before
    weight += (row + 1 < heights[gap]) & (column + 1 < widths[gap]) & after
    weight = np.where(teacher.name[i] == student.name[j], weight, 0.0)
    of_gap, row, column = monotone_pairs_of_many(weight, heights, widths)
    return np.stack([position[of_gap], a[of_gap] + row, c[of_gap] + column])


def _gap(teacher: OperatorLabels, student: OperatorLabels, gap: Gap) -> list[tuple[int, int]]:
    """A gap without anchors: exact when small, else in proportional pieces (what is left there is alike anyway)."""
    a, b, c, d = gap
    in_t, in_s = Counter(teacher.names[a:b]), Counter(student.names[c:d])
    matches = sum(count * in_s[name] for name, count in in_t.items())
    if matches == 0:
        return []
    if matches <= _MOST_MATCHES:
        return _heaviest_chain(teacher, student, gap)
    pieces = max(2, min(-(-matches // _MOST_MATCHES), b - a, d - c))
    cut_t = np.linspace(a, b, pieces + 1).astype(int).tolist()
    cut_s = np.linspace(c, d, pieces + 1).astype(int).tolist()
    found: list[tuple[int, int]] = []
    for k in range(pieces):
        if cut_t[k] < cut_t[k + 1] and cut_s[k] < cut_s[k + 1]:
            found += _gap(teacher, student, (cut_t[k], cut_t[k + 1], cut_s[k], cut_s[k + 1]))
    return found


def _heaviest_chain(teacher: OperatorLabels, student: OperatorLabels, gap: Gap) -> list[tuple[int, int]]:
    """Monotone pairs of operators of one name with the largest sum of weights; equal attributes and shapes and equal
    neighbours weigh more. Among equal sums those nearest the end. O(matches log matches).

    Runs from the end to the beginning and keeps, for each total that is best so far, the pair it ends with.
    """
    a, b, c, d = gap
    names_t, names_s, fulls_t, fulls_s = teacher.names, student.names, teacher.fulls, student.fulls
    at: defaultdict[int, list[int]] = defaultdict(list)
    for j in range(c, d):
        at[names_s[j]].append(j)
    # The front: places -j rise and totals rise with them; `chain` of an entry is (i, j, rest of the chain).
    front: list[int] = []
    totals: list[int] = []
    chains: list[tuple[int, int, object]] = []
    for i in range(b - 1, a - 1, -1):
        for j in at.get(names_t[i], ()):  # rising, so that pairs of one i never follow one another
            weight = 7 + 3 * (fulls_t[i] == fulls_s[j])
            weight += i > a and j > c and names_t[i - 1] == names_s[j - 1]
            weight += i + 1 < b and j + 1 < d and names_t[i + 1] == names_s[j + 1]
            place = bisect_left(front, -j)
            total = weight + (totals[place - 1] if place else 0)
            if place < len(front) and front[place] == -j and totals[place] >= total:
                continue
            if place and totals[place - 1] >= total:
                continue
            chain = (i, j, chains[place - 1] if place else None)
            end = place
            while end < len(front) and totals[end] <= total:
                end += 1
            front[place:end], totals[place:end], chains[place:end] = [-j], [total], [chain]
    found: list[tuple[int, int]] = []
    chain_left: object = chains[-1] if chains else None
    while isinstance(chain_left, tuple):
        found.append((chain_left[0], chain_left[1]))
        chain_left = chain_left[2]
    return found
