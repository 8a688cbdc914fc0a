"""How well two units fit: a score matrix from kinds, names, shapes, neighbours, position and weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from tb_plugin_structure.analysis.alignment.features import Features
from tb_plugin_structure.analysis.alignment.kinds import kind_similarity
from tb_plugin_structure.analysis.alignment.numbering import ranked
from tb_plugin_structure.analysis.alignment.roles import (
    is_opaque,
    name_similarity,
    role_words,
    says_little,
    word_weight,
    words_similarity,
)
from tb_plugin_structure.analysis.alignment.signatures import KINDS
from tb_plugin_structure.analysis.alignment.stack_runs import ALIKE
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
    """What the score needs of the units of one side, as arrays over units.

    halves: 1 inside what names itself attention, -1 inside what names itself a feed-forward network, 0 elsewhere.
    """

    tree: Tree
    units: list[Unit]
    last: Array
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
    dense_bags: Array
    parts: Array
    halves: Array
    names: list[str]
    around: list[frozenset[str]]

    def part(self, begin: int, end: int) -> Side:
        """The units [begin, end) as a side of their own; places stay those of the whole."""
        return Side(self.tree, *[getattr(self, name)[begin:end] for name in _OF_UNITS])

    def pick(self, places: Sequence[int]) -> Side:
        """Some units as a side of their own."""
        values: dict[str, Any] = {}
        for name in _OF_UNITS:
            value = getattr(self, name)
            values[name] = value[places] if isinstance(value, np.ndarray) else [value[place] for place in places]
        return replace(self, **values)


_OfAll = Callable[[list[Any], list[Any]], Array]
_OfPairs = Callable[[list[Any], list[Any], Array, Array], Array]
_OF_UNITS = tuple(field.name for field in fields(Side)[1:])


def describe(features: Features, scope: int, units: Sequence[Unit]) -> Side:
    """Arrays over the units of one scope."""
    tree = features.tree
    count = len(units)
    nodes = np.fromiter((unit.last for unit in units), np.int64, count)
    is_stack = np.fromiter((bool(unit.elements) for unit in units), bool, count)
    kind = np.where(is_stack, -1, features.kind[nodes])
    substance = np.where(is_stack, STACK_SUBSTANCE, features.substance[nodes])
    bags = np.zeros((count, len(KINDS)))
    dense_bags = np.zeros_like(bags)
    parts = np.full(count, -1)
    names: list[str] = []
    around: list[frozenset[str]] = []
    halves = np.zeros(count, np.int64)
    known: dict[int, frozenset[str]] = {}
    for index, unit in enumerate(units):
        named = unit.node
        if unit.elements:
            bags[index] = features.signatures.bag[list(unit.elements)].max(axis=0)
            dense_bags[index] = features.signatures.dense_bags(list(unit.elements)).max(axis=0)
            declared = tree.declared[tree.module[unit.first]]
            if declared:
                parts[index] = features.intern("parts", (tree.class_name[unit.first], declared))
            named = unit.elements[0] if len(unit.elements) == 1 else unit.node
        if unit.elements or features.telling[named]:
            names.append(tree.segment[named])
        else:
            names.append(_telling_segment(tree, named, scope))
        above = tree.parent[named]
        words = known.get(above)
        if words is None:
            words = known[above] = tree.words_between(named, scope)
        around.append(words)
        halves[index] = ("attention" in words) - ("ffn" in words)
    solid = np.flatnonzero(is_stack | features.solid[nodes])
    before, after = np.full(count, -2), np.full(count, -2)
    before[solid] = np.concatenate([[-3], kind[solid[:-1]]])[: len(solid)]
    after[solid] = np.concatenate([kind[solid[1:]], [-3]])[: len(solid)]
    last_of_kind = np.zeros(count, bool)
    _, from_end = np.unique(kind[::-1], return_index=True)
    last_of_kind[count - 1 - from_end] = True
    weights = np.maximum(substance, 0.05)
    total = float(weights.sum()) or 1.0
    place_of = (np.cumsum(weights) - weights / 2) / total
    return Side(
        tree, list(units), nodes, kind, substance, features.attributes[nodes], features.ratio[nodes],
        features.width[nodes], features.positions[nodes], before, after, place_of, last_of_kind, is_stack,
        bags, dense_bags, parts, halves, names, around,
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
    every_t, every_s = np.arange(len(teacher.units))[:, None], np.arange(len(student.units))[None, :]
    return scores_of(teacher, student, every_t, every_s, small_scope)


def scores_of(teacher: Side, student: Side, i: Array, j: Array, small_scope: bool) -> Array:
    """Scores of some pairs of units.

    Args:
        teacher: Units of one scope.
        student: Units of the scope it is paired with.
        i: Positions of teacher units.
        j: Positions of student units, of a shape that `i` broadcasts with.
        small_scope: As for :func:`scores`.
    """
    stack_t, stack_s = teacher.is_stack[i], student.is_stack[j]
    both_leaf = ~stack_t & ~stack_s
    like = np.where(both_leaf, KIND_TABLE[teacher.kind[i], student.kind[j]], 0.0)
    both_stack = stack_t & stack_s
    if both_stack.any():
        all_i, all_j = np.broadcast_arrays(i, j)
        like[both_stack] = _stacks_alike(teacher, student, all_i[both_stack], all_j[both_stack])
    name, clash = _names(teacher.names, student.names, i, j)
    around = _between(teacher.around, student.around, i, j, _words, _words_of_pairs)
    evidence = (
        _KIND * like
        + _NAME * name
        - _CLASH * clash
        + _AROUND * around
        + _WIDTH * (teacher.width[i] == student.width[j])
        + _POSITIONS * (teacher.positions[i] == student.positions[j])
        + _BESIDE * (teacher.before[i] == student.before[j])
        + _BESIDE * (teacher.after[i] == student.after[j])
        + (_ATTRIBUTES * (teacher.attributes[i] == student.attributes[j])) * both_leaf
        + (_RATIO * (teacher.ratio[i] == student.ratio[j])) * both_leaf
        - _DEPTH * np.abs(teacher.place[i] - student.place[j])
        - _NEEDED
    )
    if small_scope:
        evidence += _LAST * (teacher.last_of_kind[i] & student.last_of_kind[j])
    # What mixes positions is not what works on each by itself, however alike their layers are.
    possible = (like > 0) & ~(both_leaf & (teacher.halves[i] * student.halves[j] < 0))
    result: Array = np.where(possible, evidence * np.minimum(teacher.substance[i], student.substance[j]), 0.0)
    return result


def _stacks_alike(teacher: Side, student: Side, i: Array, j: Array) -> Array:
    """How alike the blocks of pairs of stacks are; 0 where they are unlike."""
    alike = _cosines(teacher.bags[i], student.bags[j])
    dense = _cosines(teacher.dense_bags[i], student.dense_bags[j])
    alike = np.where(dense >= ALIKE, np.maximum(alike, dense), alike)
    # Blocks of one class with the same parts are alike also where one model ran them in a single kernel.
    parts_t, parts_s = teacher.parts[i], student.parts[j]
    alike = np.where((parts_t == parts_s) & (parts_t >= 0), np.maximum(alike, SAME_PARTS), alike)
    return np.where(alike >= UNLIKE, alike, 0.0)


def _cosines(first: Array, second: Array) -> Array:
    """Cosine of each row of one table with the same row of another; 0 where either is empty."""
    norms = np.sqrt((first**2).sum(1)) * np.sqrt((second**2).sum(1))
    cosines: Array = (first * second).sum(1) / np.maximum(norms, 1e-9)
    return cosines


def _names(teacher: list[str], student: list[str], i: Array, j: Array) -> tuple[Array, Array]:
    """Similarity of names, and whether two names that say something say different things."""
    similar = _between(teacher, student, i, j, _similarities, _similarities_of_pairs)
    says_t, says_s = (np.array([not is_opaque(name) for name in names], bool) for names in (teacher, student))
    return similar, (similar <= 0) & says_t[i] & says_s[j]


def _between(teacher: list, student: list, i: Array, j: Array, of_all: _OfAll, of_pairs: _OfPairs) -> Array:  # type: ignore[type-arg]
    """A similarity of values of units, found once for each pair of distinct values that occurs."""
    unique_t, index_t = _unique(teacher)
    unique_s, index_s = _unique(student)
    if len(unique_t) * len(unique_s) <= np.broadcast(i, j).size:
        table: Array = of_all(unique_t, unique_s)[index_t[i], index_s[j]]
        return table
    pairs, place = ranked(index_t[i] * len(unique_s) + index_s[j])
    found: Array = of_pairs(unique_t, unique_s, *np.divmod(pairs, len(unique_s)))[place]
    return found


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


def _similarities_of_pairs(teacher: list[str], student: list[str], i: Array, j: Array) -> Array:
    """:func:`~tb_plugin_structure.analysis.alignment.roles.name_similarity` of some pairs of distinct names."""
    similar = _words_of_pairs([role_words(name) for name in teacher], [role_words(name) for name in student], i, j)
    places = {name: place for place, name in enumerate(student) if not is_opaque(name)}
    same = np.array([places.get(name, -1) for name in teacher], np.int64)
    return np.where(same[i] == j, 1.0, similar)


def _words_of_pairs(teacher: Sequence[frozenset[str]], student: Sequence[frozenset[str]], i: Array, j: Array) -> Array:
    """:func:`~tb_plugin_structure.analysis.alignment.roles.words_similarity` of some pairs of sets."""
    words: dict[str, int] = {}
    placed = [[[words.setdefault(word, len(words)) for word in row] for row in side] for side in (teacher, student)]
    weight = np.array([word_weight(word) for word in words], np.float64)
    (flat_t, count_t), (flat_s, count_s) = (
        (np.array([word for row in side for word in row], np.int64), np.array([len(row) for row in side], np.int64))
        for side in placed
    )
    total_t, total_s = (
        np.bincount(np.repeat(np.arange(len(count)), count), weight[flat], len(count))
        for flat, count in ((flat_t, count_t), (flat_s, count_s))
    )
    # Every word of the teacher's set of each pair, looked up among all (student set, word).
    known = np.sort(np.repeat(np.arange(len(count_s)), count_s) * len(words) + flat_s)
    each = np.repeat(np.arange(len(i)), count_t[i])
    begins = np.cumsum(count_t) - count_t
    place = np.arange(len(each)) - np.repeat(np.cumsum(count_t[i]) - count_t[i], count_t[i]) + begins[i][each]
    word = flat_t[place]
    wanted = j[each] * len(words) + word
    found = known[np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))] == wanted if len(known) else False
    shared = np.bincount(each, weight[word] * found, len(i))
    similar: Array = shared / np.maximum(total_t[i] + total_s[j] - shared, 1.0)
    return similar


def _unique(values: list) -> tuple[list, Array]:  # type: ignore[type-arg]
    places: dict[object, int] = {}
    index = np.array([places.setdefault(value, len(places)) for value in values], np.int64)
    return list(places), index
