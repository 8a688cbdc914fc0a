"""Operators inside paired calls, aligned in execution order: anchors first, then small gaps by dynamic programming."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tb_plugin_structure.analysis.alignment.pair_kinds import (
    DELETED,
    IDENTICAL,
    INSERTED,
    RECONFIGURED,
    RESIZED,
    RETYPED,
)
from tb_plugin_structure.analysis.alignment.sequence import monotone_pairs, unique_anchors
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array

_SMALL_GAP = 40_000
"""Cells up to which a gap between anchors is solved exactly."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class OperatorPairs:
    """Columns as in ``records.schema.ALIGNMENT_OPERATOR_PAIRS``."""

    teacher: list[int] = field(default_factory=list)
    student: list[int] = field(default_factory=list)
    pair: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)


class OperatorLabels:
    """Numbers for the operators of one record at three strengths, from a numbering shared by both records."""

    def __init__(self, structure: Structure, codes: dict[object, int]) -> None:
        operators = structure.operators
        count = operators.rows

        def numbers(texts: list[str]) -> Array:
            return np.array([codes.setdefault(text, len(codes)) for text in texts], np.uint64)

        pool = operators._strings
        unique, inverse = np.unique(operators["name"], return_inverse=True)
        self.name: Array = (
            numbers([pool[index] for index in unique.tolist()])[inverse] if count else np.zeros(0, np.uint64)
        )
        self.attributes = _list_hash(operators, "attribute_values", pool, codes)
        self.shape = _output_hash(structure)
        self.full: Array = _mixed(_mixed(self.name, self.attributes), self.shape)
        calls = operators["call"].astype(np.int64)
        order = np.argsort(calls, kind="stable")
        bounds = np.searchsorted(calls[order], np.arange(structure.module_calls.rows + 1))
        self._order, self._bounds = order, bounds

    def of_call(self, call: int) -> Array:
        """Rows of the operators that ran in a call itself, not in calls within it."""
        rows: Array = self._order[self._bounds[call] : self._bounds[call + 1]]
        return rows


def align_operators(teacher: Structure, student: Structure, paired: list[tuple[int, int, int]]) -> OperatorPairs:
    """Pairs and leftovers of operators.

    Args:
        teacher: The teacher's record.
        student: The student's record.
        paired: (row of the pairs table, teacher call, student call); each call at most once.
    """
    result = OperatorPairs()
    codes: dict[object, int] = {}
    labels_t, labels_s = OperatorLabels(teacher, codes), OperatorLabels(student, codes)
    memo: dict[tuple[bytes, bytes], list[tuple[int, int]]] = {}
    for number, call_t, call_s in paired:
        rows_t, rows_s = labels_t.of_call(call_t), labels_s.of_call(call_s)
        if not len(rows_t) and not len(rows_s):
            continue
        full_t, full_s = labels_t.full[rows_t], labels_s.full[rows_s]
        name_t, name_s = labels_t.name[rows_t], labels_s.name[rows_s]
        if len(rows_t) == len(rows_s) and (full_t == full_s).all():
            found = [(k, k) for k in range(len(rows_t))]
        else:
            key = (full_t.tobytes(), full_s.tobytes())
            known = memo.get(key)
            if known is None:
                known = memo[key] = align_labels(name_t, full_t, name_s, full_s)
            found = known
        _append(result, number, rows_t, rows_s, found, labels_t, labels_s)
    return result


def align_labels(name_t: Array, full_t: Array, name_s: Array, full_s: Array) -> list[tuple[int, int]]:
    """Monotone pairs of two operator sequences.

    Operators that are unique in their surroundings become anchors (the strongest surroundings first), runs of equal
    operators grow from them, and what is left between them is solved exactly where it is small.
    """
    pairs: list[tuple[int, int]] = []
    gaps = [(0, len(name_t), 0, len(name_s), 0)]
    levels = [
        (_surroundings(full_t, 2), _surroundings(full_s, 2)),
        (_surroundings(full_t, 1), _surroundings(full_s, 1)),
        (full_t, full_s),
        (_surroundings(name_t, 2), _surroundings(name_s, 2)),
        (_surroundings(name_t, 1), _surroundings(name_s, 1)),
    ]
    while gaps:
        a, b, c, d, level = gaps.pop()
        while a < b and c < d and full_t[a] == full_s[c]:
            pairs.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and full_t[b - 1] == full_s[d - 1]:
            b, d = b - 1, d - 1
            pairs.append((b, d))
        if a >= b or c >= d:
            continue
        if (b - a) * (d - c) <= _SMALL_GAP or level >= len(levels):
            pairs += _gap(name_t, full_t, name_s, full_s, a, b, c, d)
            continue
        labels_t, labels_s = levels[level]
        anchors = unique_anchors(labels_t[a:b].tolist(), labels_s[c:d].tolist())
        if not anchors:
            gaps.append((a, b, c, d, level + 1))
            continue
        last_t, last_s = a, c
        for i, j in anchors:
            i, j = i + a, j + c
            if i < last_t or j < last_s:
                continue
            pairs.append((i, j))
            if i > last_t and j > last_s:
                gaps.append((last_t, i, last_s, j, level + 1))
            last_t, last_s = i + 1, j + 1
        if last_t < b and last_s < d:
            gaps.append((last_t, b, last_s, d, level + 1))
    pairs.sort()
    return pairs


def _gap(
    name_t: Array, full_t: Array, name_s: Array, full_s: Array, a: int, b: int, c: int, d: int
) -> list[tuple[int, int]]:
    """A gap without anchors: exact when small, else in proportional pieces (what is left there is alike anyway)."""
    cells = (b - a) * (d - c)
    if cells > _SMALL_GAP:
        pieces = -(-cells // _SMALL_GAP)
        pieces = max(2, min(pieces, b - a, d - c))
        cut_t = np.linspace(a, b, pieces + 1).astype(int).tolist()
        cut_s = np.linspace(c, d, pieces + 1).astype(int).tolist()
        found: list[tuple[int, int]] = []
        for k in range(pieces):
            if (cut_t[k + 1] - cut_t[k]) * (cut_s[k + 1] - cut_s[k]) <= _SMALL_GAP:
                found += _gap(name_t, full_t, name_s, full_s, cut_t[k], cut_t[k + 1], cut_s[k], cut_s[k + 1])
        return found
    score = 0.7 * (name_t[a:b, None] == name_s[None, c:d]) + 0.3 * (full_t[a:b, None] == full_s[None, c:d])
    if score.shape[0] <= 64 and score.shape[1] <= 64 and score.size:
        before = np.zeros_like(score)
        before[1:, 1:] = (score[1:, 1:] > 0) & (score[:-1, :-1] > 0)
        after = np.zeros_like(score)
        after[:-1, :-1] = (score[:-1, :-1] > 0) & (score[1:, 1:] > 0)
        score = np.where(score > 0, score + 0.1 * before + 0.1 * after, 0.0)
    return [(a + i, c + j) for i, j in monotone_pairs(score)]


def _append(
    result: OperatorPairs, number: int, rows_t: Array, rows_s: Array, pairs: list[tuple[int, int]],
    labels_t: OperatorLabels, labels_s: OperatorLabels,
) -> None:  # fmt: skip
    places = np.array(pairs, np.int64).reshape(-1, 2)
    paired_t, paired_s = rows_t[places[:, 0]], rows_s[places[:, 1]]
    same_name = labels_t.name[paired_t] == labels_s.name[paired_s]
    same_attributes = labels_t.attributes[paired_t] == labels_s.attributes[paired_s]
    same_shape = labels_t.shape[paired_t] == labels_s.shape[paired_s]
    kinds = np.where(
        ~same_name, RETYPED, np.where(~same_attributes, RECONFIGURED, np.where(~same_shape, RESIZED, IDENTICAL))
    )
    confidence = 0.55 + 0.25 * same_name + 0.1 * same_attributes + 0.1 * same_shape
    only_t = np.setdiff1d(rows_t, paired_t)
    only_s = np.setdiff1d(rows_s, paired_s)
    result.teacher += paired_t.tolist() + only_t.tolist() + [-1] * len(only_s)
    result.student += paired_s.tolist() + [-1] * len(only_t) + only_s.tolist()
    result.kind += kinds.tolist() + [DELETED] * len(only_t) + [INSERTED] * len(only_s)
    result.confidence += confidence.tolist() + [0.5] * (len(only_t) + len(only_s))
    result.pair += [number] * (len(paired_t) + len(only_t) + len(only_s))


def _mixed(first: Array, second: Array) -> Array:
    with np.errstate(over="ignore"):
        value: Array = (first * _MIX) ^ (
            second + np.uint64(0x7F4A7C15) + (first << np.uint64(6)) + (first >> np.uint64(2))
        )
        value = value * np.uint64(0xBF58476D1CE4E5B9)
        value = value ^ (value >> np.uint64(31))
    return value


def _surroundings(labels: Array, reach: int) -> Array:
    """Labels of windows of 2 reach + 1 operators."""
    value = labels
    for distance in range(1, reach + 1):
        before = np.zeros_like(labels)
        after = np.zeros_like(labels)
        if len(labels) > distance:
            before[distance:] = labels[:-distance]
            after[:-distance] = labels[distance:]
        value = _mixed(_mixed(value, before), after)
    return value


def _list_hash(operators, column: str, pool, codes: dict[object, int]) -> Array:  # type: ignore[no-untyped-def]
    """A hash of each row's list of strings."""
    values = operators[column]
    unique, inverse = np.unique(values, return_inverse=True)
    numbers = np.array([codes.setdefault(("v", pool[index]), len(codes)) for index in unique.tolist()], np.uint64)
    flat = numbers[inverse] if len(values) else np.zeros(0, np.uint64)
    return _segments(flat, operators.offsets(column).astype(np.int64))


def _segments(flat: Array, offsets: Array) -> Array:
    """An order-dependent hash of each segment of `flat`."""
    count = len(offsets) - 1
    if not len(flat):
        return np.zeros(count, np.uint64)
    position = np.arange(len(flat), dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))
    mixed = _mixed(flat + np.uint64(1), position.astype(np.uint64))
    sums = np.zeros(len(flat) + 1, np.uint64)
    with np.errstate(over="ignore"):
        np.cumsum(mixed, out=sums[1:])
        result: Array = sums[offsets[1:]] - sums[offsets[:-1]]
    return result


def _output_hash(structure: Structure) -> Array:
    """A hash of the shape of each operator's first output, its batch dimension included."""
    tensors = structure.tensors
    shape = _segments(tensors["shape"].astype(np.uint64), tensors.offsets("shape").astype(np.int64))
    offsets = structure.operators.offsets("outputs").astype(np.int64)
    outputs = structure.operators["outputs"].astype(np.int64)
    result = np.zeros(structure.operators.rows, np.uint64)
    some = np.diff(offsets) > 0
    if some.any():
        result[some] = shape[outputs[offsets[:-1][some]]]
    return result
