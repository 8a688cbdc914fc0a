"""How well two units fit: a score matrix from kinds, names, shapes, neighbours, position and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import log2
from typing import Any

import numpy as np

from tb_plugin_structure.analysis.alignment.kinds import SUBSTANCE, TRANSPARENT, kind_similarity
from tb_plugin_structure.analysis.alignment.roles import (
    is_opaque,
    name_similarity,
    role_words,
    says_little,
    word_weight,
    words_similarity,
)
from tb_plugin_structure.analysis.alignment.signatures import KIND_CODE, KINDS, Signatures
from tb_plugin_structure.analysis.alignment.stacks import Unit
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array

KIND_TABLE = np.array([[kind_similarity(first, second) for second in KINDS] for first in KINDS])

UNLIKE = 0.6
"""Cosine of two blocks' bags below which their leaves are not compared: they are paired as stages at most."""

SAME_PARTS = 0.9
"""How alike blocks of one class are that hold modules of the same names, whatever of them was called."""

STACK_SUBSTANCE = 4.0
"""A pair of stacks outweighs this many leaves."""

_MANY_NAMES = 200
"""Pairs of distinct names above which their similarities are a matrix product."""

# Weights of the pieces of evidence, found on networks and edits made for the purpose; their sum is 1.15.
_KIND, _NAME, _CLASH, _AROUND, _ATTRIBUTES, _RATIO, _WIDTH, _POSITIONS, _BESIDE, _LAST, _DEPTH, _NEEDED = (
    0.50, 0.30, 0.12, 0.15, 0.10, 0.08, 0.12, 0.10, 0.08, 0.12, 0.35, 0.20,
)  # fmt: skip


@dataclass
class Side:
    """What the score needs of the units of one side, as arrays over units."""

    tree: Tree
    units: list[Unit]
    kind: Array
    substance: Array
    attributes: Array
    ratio: Array
    width: Array
    positions: Array
    before: Array
    after: Array
    place: Array
    last_of_kind: Array
    is_stack: Array
    bags: Array
    parts: Array
    names: list[str]
    around: list[frozenset[str]]

    def part(self, begin: int, end: int) -> Side:
        """The units [begin, end) as a side of their own; places stay those of the whole."""
        return Side(self.tree, *[getattr(self, name)[begin:end] for name in _OF_UNITS])

    def pick(self, places: list[int]) -> Side:
        """Some units as a side of their own."""
        values: dict[str, Any] = {}
        for name in _OF_UNITS:
            value = getattr(self, name)
            values[name] = value[places] if isinstance(value, np.ndarray) else [value[place] for place in places]
        return replace(self, **values)


_OF_UNITS = tuple(field.name for field in fields(Side)[1:])


def describe(tree: Tree, signatures: Signatures, scope: int, units: Sequence[Unit], codes: dict[object, int]) -> Side:
    """Arrays over units; `codes` numbers values alike for both sides."""

    def code(*value: object) -> int:
        return codes.setdefault(value, len(codes))

    count = len(units)
    kind = np.zeros(count, np.int64)
    substance = np.zeros(count)
    attributes, ratio, width, positions = (np.zeros(count, np.int64) for _ in range(4))
    bags = np.zeros((count, len(KINDS)))
    parts = np.full(count, -1)
    names: list[str] = []
    around: list[frozenset[str]] = []
    stack_flags = np.array([unit.is_stack for unit in units], bool)
    for index, unit in enumerate(units):
        node = unit.last
        extent = tree.extent[node]
        kind[index] = -1 if unit.is_stack else KIND_CODE[tree.kind[node]]
        substance[index] = STACK_SUBSTANCE if unit.is_stack else SUBSTANCE[tree.kind[node]]
        width[index] = code("w", extent.width)
        positions[index] = code("p", extent.rank, extent.positions)
        if unit.is_stack:
            bags[index] = signatures.bag[list(unit.elements)].max(axis=0)
            declared = tree.declared[tree.module[unit.first]]
            if declared:
                parts[index] = code("m", tree.class_name[unit.first], declared)
            attributes[index] = code("a", None)
            ratio[index] = code("r", None)
            named = unit.elements[0] if len(unit.elements) == 1 else unit.node
            names.append(tree.segment[named])
            around.append(tree.words_between(named, scope))
            continue
        weight = tree.weight_shape(node)
        kernel = weight[2:] if len(weight) > 2 else (tree.attribute(node, "kernel_size"),)
        depthwise = len(weight) > 2 and weight[1] == 1 and weight[0] > 1
        attributes[index] = code("a", kernel, tree.attribute(node, "stride"), depthwise)
        entry = tree.entry[node]
        scale = round(2 * log2(extent.width / entry.width)) if extent.width and entry.width else None
        ratio[index] = code("r", scale)
        names.append(_telling_segment(tree, node, scope))
        around.append(tree.words_between(node, scope))
    solid = [index for index, unit in enumerate(units) if unit.is_stack or tree.kind[unit.node] not in TRANSPARENT]
    before, after = np.full(count, -2), np.full(count, -2)
    last_of_kind = np.zeros(count, bool)
    for place, index in enumerate(solid):
        before[index] = kind[solid[place - 1]] if place else -3
        after[index] = kind[solid[place + 1]] if place + 1 < len(solid) else -3
    seen: set[int] = set()
    for index in range(count - 1, -1, -1):
        if int(kind[index]) not in seen:
            seen.add(int(kind[index]))
            last_of_kind[index] = True
    weights = np.maximum(substance, 0.05)
    total = float(weights.sum()) or 1.0
    place_of = (np.cumsum(weights) - weights / 2) / total
    return Side(
        tree, list(units), kind, substance, attributes, ratio, width, positions, before, after, place_of,
        last_of_kind, stack_flags, bags, parts, names, around,
    )  # fmt: skip


def _telling_segment(tree: Tree, node: int, scope: int) -> str:
    """The innermost path segment within the scope that says something: "downsample" for "downsample.0", "key" for the
    "base_layer" inside an adapted layer that takes and returns what the base does."""
    inner = node
    while tree.parent[node] > scope and (
        is_opaque(tree.segment[node])
        or (says_little(tree.segment[node]) and _is_around(tree, tree.parent[node], inner))
    ):
        node = tree.parent[node]
    return tree.segment[inner] if is_opaque(tree.segment[node]) else tree.segment[node]


def _is_around(tree: Tree, outer: int, leaf: int) -> bool:
    """Whether a composite takes and returns what a leaf inside it does."""
    same = tree.entry[outer] == tree.entry[leaf] and tree.extent[outer] == tree.extent[leaf]
    return same and tree.call[outer] >= 0


def scores(teacher: Side, student: Side, small_scope: bool) -> Array:
    """[teacher units, student units]; 0 or less where a pair must not be made.

    Args:
        teacher: Units of one scope.
        student: Units of the scope it is paired with.
        small_scope: Whether the scopes are blocks; then the last leaf of a kind is where features are taken.
    """
    if not teacher.units or not student.units:
        return np.zeros((len(teacher.units), len(student.units)))
    like = np.zeros((len(teacher.units), len(student.units)))
    leaf_t, leaf_s = np.flatnonzero(~teacher.is_stack), np.flatnonzero(~student.is_stack)
    like[np.ix_(leaf_t, leaf_s)] = KIND_TABLE[teacher.kind[leaf_t][:, None], student.kind[leaf_s][None, :]]
    stack_t, stack_s = np.flatnonzero(teacher.is_stack), np.flatnonzero(student.is_stack)
    if len(stack_t) and len(stack_s):
        bags_t, bags_s = teacher.bags[stack_t], student.bags[stack_s]
        norms = np.sqrt((bags_t**2).sum(1))[:, None] * np.sqrt((bags_s**2).sum(1))[None, :]
        alike = (bags_t @ bags_s.T) / np.maximum(norms, 1e-9)
        # Blocks of one class with the same parts are alike also where one model ran them in a single kernel.
        parts_t, parts_s = teacher.parts[stack_t][:, None], student.parts[stack_s][None, :]
        alike = np.where((parts_t == parts_s) & (parts_t >= 0), np.maximum(alike, SAME_PARTS), alike)
        like[np.ix_(stack_t, stack_s)] = np.where(alike >= UNLIKE, alike, 0.0)
    name, clash = _names(teacher.names, student.names)
    around = _around(teacher.around, student.around)
    both_leaf = ~teacher.is_stack[:, None] & ~student.is_stack[None, :]
    evidence = (
        _KIND * like
        + _NAME * name
        - _CLASH * clash
        + _AROUND * around
        + _WIDTH * (teacher.width[:, None] == student.width[None, :])
        + _POSITIONS * (teacher.positions[:, None] == student.positions[None, :])
        + _BESIDE * (teacher.before[:, None] == student.before[None, :])
        + _BESIDE * (teacher.after[:, None] == student.after[None, :])
        + (_ATTRIBUTES * (teacher.attributes[:, None] == student.attributes[None, :])) * both_leaf
        + (_RATIO * (teacher.ratio[:, None] == student.ratio[None, :])) * both_leaf
        - _DEPTH * np.abs(teacher.place[:, None] - student.place[None, :])
        - _NEEDED
    )
    if small_scope:
        evidence += _LAST * (teacher.last_of_kind[:, None] & student.last_of_kind[None, :])
    substance = np.minimum(teacher.substance[:, None], student.substance[None, :])
    result: Array = np.where(like > 0, evidence * substance, 0.0)
    return result


def _names(teacher: list[str], student: list[str]) -> tuple[Array, Array]:
    """Similarity of names, and whether two names that say something say different things."""
    unique_t, index_t = _unique(teacher)
    unique_s, index_s = _unique(student)
    similar = _similarities(unique_t, unique_s)
    says_t = np.array([not is_opaque(name) for name in unique_t])
    says_s = np.array([not is_opaque(name) for name in unique_s])
    clash = (similar <= 0) & says_t[:, None] & says_s[None, :]
    return similar[np.ix_(index_t, index_s)], clash[np.ix_(index_t, index_s)]


def _similarities(teacher: list[str], student: list[str]) -> Array:
    """:func:`~tb_plugin_structure.analysis.alignment.roles.name_similarity` of all pairs of distinct names."""
    if len(teacher) * len(student) < _MANY_NAMES:
        return np.array([[name_similarity(first, second) for second in student] for first in teacher])
    similar = _words([role_words(name) for name in teacher], [role_words(name) for name in student])
    places = {name: place for place, name in enumerate(student) if not is_opaque(name)}
    for place, name in enumerate(teacher):
        if name in places:
            similar[place, places[name]] = 1.0
    return similar


def _words(teacher: Sequence[frozenset[str]], student: Sequence[frozenset[str]]) -> Array:
    """:func:`~tb_plugin_structure.analysis.alignment.roles.words_similarity` of all pairs of sets."""
    if len(teacher) * len(student) < _MANY_NAMES:
        return np.array([[words_similarity(first, second) for second in student] for first in teacher])
    words: dict[str, int] = {}
    placed = [[[words.setdefault(word, len(words)) for word in row] for row in side] for side in (teacher, student)]
    weight = np.array([word_weight(word) for word in words], np.float64)
    holds_t, holds_s = (np.zeros((len(side), len(words))) for side in placed)
    for holds, side in zip((holds_t, holds_s), placed, strict=True):
        holds[np.repeat(np.arange(len(side)), [len(row) for row in side]), [word for row in side for word in row]] = 1.0
    shared = (holds_t * weight) @ holds_s.T
    similar: Array = shared / np.maximum((holds_t @ weight)[:, None] + (holds_s @ weight)[None, :] - shared, 1.0)
    return similar


def _around(teacher: list[frozenset[str]], student: list[frozenset[str]]) -> Array:
    unique_t, index_t = _unique(teacher)
    unique_s, index_s = _unique(student)
    result: Array = _words(unique_t, unique_s)[np.ix_(index_t, index_s)]
    return result


def _unique(values: list) -> tuple[list, Array]:  # type: ignore[type-arg]
    places: dict[object, int] = {}
    index = np.array([places.setdefault(value, len(places)) for value in values], np.int64)
    return list(places), index
