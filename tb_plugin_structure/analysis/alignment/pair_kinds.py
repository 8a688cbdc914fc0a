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


def own_kind(teacher: Tree, node_t: int, student: Tree, node_s: int) -> int:
    """The kind of a pair from the two modules alone, not from what lies inside them."""
    if teacher.class_name[node_t] != student.class_name[node_s]:
        return RETYPED
    attributes_t = teacher.attributes[teacher.module[node_t]]
    attributes_s = student.attributes[student.module[node_s]]
    resized = False
    for name in attributes_t.keys() | attributes_s.keys():
        if attributes_t.get(name) != attributes_s.get(name):
            if (name == "groups" and _depthwise(attributes_t) and _depthwise(attributes_s)) or is_size(name):
                resized = True
            else:
                return RECONFIGURED
    if resized or teacher.extent[node_t] != student.extent[node_s] or teacher.entry[node_t] != student.entry[node_s]:
        return RESIZED
    shapes_t = [teacher.parameter_shapes[row] for row in teacher.own_parameters[teacher.module[node_t]]]
    shapes_s = [student.parameter_shapes[row] for row in student.own_parameters[student.module[node_s]]]
    if len(shapes_t) != len(shapes_s):
        return RECONFIGURED
    return IDENTICAL if shapes_t == shapes_s else RESIZED


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
