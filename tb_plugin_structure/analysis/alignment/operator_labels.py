"""Numbers for operators, equal where operators are equal: what the alignment of operators compares."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Array

_MIX = np.uint64(0x9E3779B97F4A7C15)

LEVELS = ((True, 2), (True, 1), (True, 0), (False, 2), (False, 1))
"""Strengths of anchors, strongest first: whether attributes and shapes count, and how many neighbours a side do."""


class OperatorLabels:
    """Numbers for the operators of one record, from a numbering shared by both records.

    All arrays and lists are in the order of execution *within each call*: the operators of one call are neighbours, at
    ``[bounds[call], bounds[call + 1])``, and ``rows`` holds their rows in the operators table.
    """

    def __init__(self, structure: Structure, codes: dict[object, int]) -> None:
        operators = structure.operators
        pool = operators._strings
        calls = operators["call"].astype(np.int64)
        self.rows: Array = np.argsort(calls, kind="stable")
        self.call: Array = calls[self.rows]
        self.bounds: list[int] = np.searchsorted(self.call, np.arange(structure.module_calls.rows + 1)).tolist()
        unique, inverse = np.unique(operators["name"], return_inverse=True)
        numbers = [codes.setdefault(pool[index], len(codes)) for index in unique.tolist()]
        self.name: Array = np.array(numbers, np.uint64)[inverse][self.rows]
        self.attributes: Array = _list_hash(operators, "attribute_values", pool, codes)[self.rows]
        self.shape: Array = _output_hash(structure)[self.rows]
        self.full: Array = _mixed(_mixed(self.name, self.attributes), self.shape)
        self._windows: dict[int, list[int]] = {}

    # Single values of lists are read several times faster than single values of arrays.

    @cached_property
    def names(self) -> list[int]:
        listed: list[int] = self.name.tolist()
        return listed

    @cached_property
    def fulls(self) -> list[int]:
        listed: list[int] = self.full.tolist()
        return listed

    def window(self, level: int) -> list[int]:
        """Labels of windows of operators, one for each strength of :data:`LEVELS`; windows end where the call does."""
        if level not in self._windows:
            with_shapes, reach = LEVELS[level]
            self._windows[level] = _surroundings(self.full if with_shapes else self.name, self.call, reach).tolist()
        return self._windows[level]


def _surroundings(labels: Array, call: Array, reach: int) -> Array:
    value = labels
    for distance in range(1, reach + 1):
        before, after = np.zeros_like(labels), np.zeros_like(labels)
        if len(labels) > distance:
            same = call[distance:] == call[:-distance]
            before[distance:] = np.where(same, labels[:-distance], 0)
            after[:-distance] = np.where(same, labels[distance:], 0)
        value = _mixed(_mixed(value, before), after)
    return value


def _mixed(first: Array, second: Array) -> Array:
    with np.errstate(over="ignore"):
        value: Array = (first * _MIX) ^ (
            second + np.uint64(0x7F4A7C15) + (first << np.uint64(6)) + (first >> np.uint64(2))
        )
        value = value * np.uint64(0xBF58476D1CE4E5B9)
        value = value ^ (value >> np.uint64(31))
    return value


def _list_hash(operators, column: str, pool, codes: dict[object, int]) -> Array:  # type: ignore[no-untyped-def]
    """A hash of each row's list of strings."""
    unique, inverse = np.unique(operators[column], return_inverse=True)
    numbers = [codes.setdefault(("v", pool[index]), len(codes)) for index in unique.tolist()]
    return _segments(np.array(numbers, np.uint64)[inverse], operators.offsets(column).astype(np.int64))


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
