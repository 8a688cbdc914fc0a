"""What a pair is: identical, resized, reconfigured, retyped or moved."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.analysis.alignment.numbering import Interner, ranked
from tb_plugin_structure.analysis.alignment.tree import Tree
from tb_plugin_structure.records.table import Array
from tb_plugin_structure.v1 import alignment_pb2

IDENTICAL = int(alignment_pb2.PAIR_KIND_IDENTICAL)
RESIZED = int(alignment_pb2.PAIR_KIND_RESIZED)
RECONFIGURED = int(alignment_pb2.PAIR_KIND_RECONFIGURED)
RETYPED = int(alignment_pb2.PAIR_KIND_RETYPED)
INSERTED = int(alignment_pb2.PAIR_KIND_INSERTED)
DELETED = int(alignment_pb2.PAIR_KIND_DELETED)
MOVED = int(alignment_pb2.PAIR_KIND_MOVED)

KIND_NAMES = {
    IDENTICAL: "identical",
    RESIZED: "resized",
    RECONFIGURED: "reconfigured",
    RETYPED: "retyped",
    INSERTED: "only in the student",
    DELETED: "only in the teacher",
    MOVED: "moved",
}

_SIZE_NAME = re.compile(
    r"(^|_)(features?|channels?|width|widths|dims?|dim|embedding|embeddings|embd|hidden|normalized|planes|size|shape|vocab)"
    r"($|_|\d)"
)
_NOT_SIZE = re.compile(r"kernel_size|window_size|patch_size|pool_size|output_size|scale")


def is_size(attribute: str) -> bool:
    """Whether an attribute says how wide a module is, rather than how it works."""
    return bool(_SIZE_NAME.search(attribute)) and not _NOT_SIZE.search(attribute)


def own_kinds(teacher: Tree, student: Tree, nodes_t: Array, nodes_s: Array) -> Array:
    """The kind of each pair of nodes from the two modules alone, not from what lies inside them."""
    rows_t, rows_s = np.array(teacher.module, np.int64)[nodes_t], np.array(student.module, np.int64)[nodes_s]
    of_attributes = _attribute_kinds(teacher, student, rows_t, rows_s)
    intern = Interner()
    described_t, described_s = _Described(teacher, intern), _Described(student, intern)
    same_shape = (described_t.extent[nodes_t] == described_s.extent[nodes_s]) & (
        described_t.entry[nodes_t] == described_s.entry[nodes_s]
    )
    as_many = described_t.count[rows_t] == described_s.count[rows_s]
    same_weights = described_t.shapes[rows_t] == described_s.shapes[rows_s]
    found: Array = np.select(
        [
            described_t.class_name[rows_t] != described_s.class_name[rows_s],
            of_attributes != IDENTICAL,
            ~same_shape,
            ~as_many,
            ~same_weights,
        ],
        [RETYPED, of_attributes, RESIZED, RECONFIGURED, RESIZED],
        IDENTICAL,
    )
    return found


class _Described:
    """Numbers, equal across both models where the values are: of nodes their extents, of module rows their classes,
    and the number and shapes of their parameters."""

    def __init__(self, tree: Tree, intern: Interner) -> None:
        extents = intern.each("extent", tree.extents)
        self.extent: Array = extents[tree.extent_row]
        self.entry: Array = extents[tree.entry_row]
        self.class_name = intern.each("class", tree.structure.module_classes)
        shapes = tree.parameter_shapes
        of_module = [tuple([shapes[row] for row in rows]) for rows in tree.own_parameters]
        self.shapes = intern.each("shapes", of_module)
        self.count = np.fromiter(map(len, of_module), np.int64, len(of_module))


def _attribute_kinds(teacher: Tree, student: Tree, rows_t: Array, rows_s: Array) -> Array:
    """The kind that attributes alone give, for pairs of module rows."""
    sets_t, sets_s = teacher.attribute_sets, student.attribute_sets
    places_t, places_s = np.array(teacher.attribute_row, np.int64), np.array(student.attribute_row, np.int64)
    pairs, index = ranked(places_t[rows_t] * len(sets_s) + places_s[rows_s])
    kinds = [_from_attributes(sets_t[pair // len(sets_s)], sets_s[pair % len(sets_s)]) for pair in pairs.tolist()]
    found: Array = np.array(kinds, np.int64)[index]
    return found


def _from_attributes(teacher: dict[str, str], student: dict[str, str]) -> int:
    kind = IDENTICAL
    for name in teacher.keys() | student.keys():
        if teacher.get(name) != student.get(name):
            if (name == "groups" and _depthwise(teacher) and _depthwise(student)) or is_size(name):
                kind = RESIZED
            else:
                return RECONFIGURED
    return kind


def _depthwise(attributes: dict[str, str]) -> bool:
    return attributes.get("groups") == attributes.get("in_channels") != "1"


_CHANGED = sum(1 << kind for kind in (INSERTED, DELETED, RETYPED, RECONFIGURED))
_SIZES = 1 << RESIZED | 1 << MOVED


def whole_kinds(own: Sequence[int], parents: Sequence[int]) -> list[int]:
    """Kinds of rows from their own kinds and those of the rows inside them; parents come before children."""
    found = list(own)
    inside = [0] * len(found)
    for row in range(len(found) - 1, -1, -1):
        kind = found[row]
        if inside[row] and kind in (IDENTICAL, RESIZED, RECONFIGURED):
            if inside[row] & _CHANGED:
                kind = RECONFIGURED
            elif inside[row] & _SIZES:
                kind = max(kind, RESIZED)
            found[row] = kind
        if parents[row] >= 0:
            inside[parents[row]] |= 1 << kind
    return found
