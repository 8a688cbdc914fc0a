"""What a pair is: identical, resized, reconfigured, retyped or moved."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tb_plugin_structure.analysis.alignment.tree import Tree
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


class OwnKinds:
    """Kinds of pairs of one teacher and one student from the two modules alone, not from what lies inside them."""

    def __init__(self, teacher: Tree, student: Tree) -> None:
        self._teacher, self._student = teacher, student
        self._known: dict[tuple[int, int], int] = {}

    def of(self, node_t: int, node_s: int) -> int:
        teacher, student = self._teacher, self._student
        if teacher.class_name[node_t] != student.class_name[node_s]:
            return RETYPED
        module_t, module_s = teacher.module[node_t], student.module[node_s]
        key = (teacher.attribute_row[module_t], student.attribute_row[module_s])
        own = self._known.get(key)
        if own is None:
            own = _from_attributes(teacher.attribute_sets[key[0]], student.attribute_sets[key[1]])
            self._known[key] = own
        if own != IDENTICAL:
            return own
        if teacher.extent[node_t] != student.extent[node_s] or teacher.entry[node_t] != student.entry[node_s]:
            return RESIZED
        rows_t, rows_s = teacher.own_parameters[module_t], student.own_parameters[module_s]
        if len(rows_t) != len(rows_s):
            return RECONFIGURED
        shapes_t = [teacher.parameter_shapes[row] for row in rows_t]
        return IDENTICAL if shapes_t == [student.parameter_shapes[row] for row in rows_s] else RESIZED


def _from_attributes(teacher: dict[str, str], student: dict[str, str]) -> int:
    """The kind that attributes alone give."""
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


def whole_kind(own: int, inside: Iterable[int]) -> int:
    """The kind of a composite of kind `own` whose rows inside have the kinds `inside`."""
    if own == RETYPED:
        return RETYPED
    kinds = set(inside)
    if kinds & {INSERTED, DELETED, RETYPED, RECONFIGURED}:
        return RECONFIGURED
    if RESIZED in kinds or MOVED in kinds:
        return max(own, RESIZED)
    return own
