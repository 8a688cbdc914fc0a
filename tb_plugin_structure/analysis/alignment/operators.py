"""Operators inside paired calls, aligned in execution order: anchors first, then small gaps by dynamic programming."""

from __future__ import annotations

from dataclasses import dataclass

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

_TINY_GAP = 600
"""Cells up to which a gap between anchors is solved exactly without looking for weaker anchors."""

_SMALL_GAP = 40_000
"""Cells up to which a gap is solved exactly when no anchor is left in it."""

_LEVELS = 5
"""Strengths of anchors: windows of 5, 3 and 1 operators with their attributes and shapes, then of 5 and 3 names."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class OperatorPairs:
    """Columns as in ``records.schema.ALIGNMENT_OPERATOR_PAIRS``."""

    teacher: Array
    student: Array
    pair: Array
    kind: Array
    confidence: Array


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
    codes: dict[object, int] = {}
    labels_t, labels_s = OperatorLabels(teacher, codes), OperatorLabels(student, codes)
    memo: dict[tuple[bytes, bytes], list[tuple[int, int]]] = {}
    both_t: list[Array] = []
    both_s: list[Array] = []
    lone_t: list[Array] = []
    lone_s: list[Array] = []
    numbers: list[Array] = []
    for number, call_t, call_s in paired:
        rows_t, rows_s = labels_t.of_call(call_t), labels_s.of_call(call_s)
        if not len(rows_t) and not len(rows_s):
            continue
        full_t, full_s = labels_t.full[rows_t], labels_s.full[rows_s]
        if len(rows_t) == len(rows_s) and (full_t == full_s).all():
            places_t = places_s = np.arange(len(rows_t))
        else:
            key = (full_t.tobytes(), full_s.tobytes())
            found = memo.get(key)
            if found is None:
                found = memo[key] = align_labels(labels_t.name[rows_t], full_t, labels_s.name[rows_s], full_s)
            places_t, places_s = np.array(found, np.int64).reshape(-1, 2).T
        alone_t, alone_s = np.ones(len(rows_t), bool), np.ones(len(rows_s), bool)
        alone_t[places_t] = alone_s[places_s] = False
        both_t.append(rows_t[places_t])
        both_s.append(rows_s[places_s])
        lone_t.append(rows_t[alone_t])
        lone_s.append(rows_s[alone_s])
        numbers.append(np.array([number, len(places_t), len(lone_t[-1]), len(lone_s[-1])]))
    return _columns(labels_t, labels_s, both_t, both_s, lone_t, lone_s, numbers)


def _columns(
    labels_t: OperatorLabels, labels_s: OperatorLabels, both_t: list[Array], both_s: list[Array],
    lone_t: list[Array], lone_s: list[Array], numbers: list[Array],
) -> OperatorPairs:  # fmt: skip
    """Columns of all pairs, then of what only one side has, in the order of the pairs table."""
    empty = np.zeros(0, np.int64)
    paired_t, paired_s = np.concatenate([empty, *both_t]), np.concatenate([empty, *both_s])
    alone_t, alone_s = np.concatenate([empty, *lone_t]), np.concatenate([empty, *lone_s])
    same_name = labels_t.name[paired_t] == labels_s.name[paired_s]
    same_attributes = labels_t.attributes[paired_t] == labels_s.attributes[paired_s]
    same_shape = labels_t.shape[paired_t] == labels_s.shape[paired_s]
    kinds = np.where(
        ~same_name, RETYPED, np.where(~same_attributes, RECONFIGURED, np.where(~same_shape, RESIZED, IDENTICAL))
    )
    confidence = 0.55 + 0.25 * same_name + 0.1 * same_attributes + 0.1 * same_shape
    counts = np.array(numbers, np.int64).reshape(-1, 4)
    rows = [np.repeat(counts[:, 0], counts[:, column]) for column in (1, 2, 3)]
    nothing_t, nothing_s = np.full(len(alone_t), -1), np.full(len(alone_s), -1)
    order = np.argsort(np.concatenate(rows), kind="stable")
    return OperatorPairs(
        teacher=np.concatenate([paired_t, alone_t, nothing_s])[order],
        student=np.concatenate([paired_s, nothing_t, alone_s])[order],
        pair=np.concatenate(rows)[order],
        kind=np.concatenate([kinds, np.full(len(alone_t), DELETED), np.full(len(alone_s), INSERTED)])[order],
        confidence=np.concatenate([confidence, np.full(len(alone_t) + len(alone_s), 0.5)])[order],
    )


def align_labels(name_t: Array, full_t: Array, name_s: Array, full_s: Array) -> list[tuple[int, int]]:
    """Monotone pairs of two operator sequences.

    Operators that are unique in their surroundings become anchors (the strongest surroundings first), runs of equal
    operators grow from them, and what is left between them is solved exactly where it is small.
    """
    pairs: list[tuple[int, int]] = []
    gaps = [(0, len(name_t), 0, len(name_s), 0)]
    known: dict[int, tuple[Array, Array]] = {}

    def level_labels(level: int) -> tuple[Array, Array]:
        if level not in known:
            (first, second), reach = ((full_t, full_s), 2 - level) if level < 3 else ((name_t, name_s), 5 - level)
            known[level] = _surroundings(first, reach), _surroundings(second, reach)
        return known[level]

    listed_t, listed_s = full_t.tolist(), full_s.tolist()  # single values of lists are read faster than of arrays
    names_t, names_s = name_t.tolist(), name_s.tolist()
    while gaps:
        a, b, c, d, level = gaps.pop()
        while a < b and c < d and listed_t[a] == listed_s[c]:
            pairs.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and listed_t[b - 1] == listed_s[d - 1]:
            b, d = b - 1, d - 1
            pairs.append((b, d))
        if a >= b or c >= d:
            continue
        if b - a == 1 or d - c == 1:
            pairs += _single(names_t, listed_t, names_s, listed_s, a, b, c, d)
            continue
        if (b - a) * (d - c) <= _TINY_GAP or level >= _LEVELS:
            pairs += _gap(name_t, full_t, name_s, full_s, a, b, c, d)
            continue
        labels_t, labels_s = level_labels(level)
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


def _single(
    name_t: list[int], full_t: list[int], name_s: list[int], full_s: list[int], a: int, b: int, c: int, d: int
) -> list[tuple[int, int]]:
    """A gap with one operator on a side: its best partner, the last one among equals."""
    best: tuple[int, int, int] | None = None
    for i in range(a, b):
        for j in range(c, d):
            if name_t[i] == name_s[j]:
                found = (int(full_t[i] == full_s[j]), i, j)
                best = found if best is None or found > best else best
    return [best[1:]] if best is not None else []


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
