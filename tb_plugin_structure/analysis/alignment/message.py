"""An alignment read back from its message: all that an audit needs of it, without making it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tb_plugin_structure.records.schema import ALIGNMENT_PAIRS
from tb_plugin_structure.records.strings import Strings
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.records.table import Table
from tb_plugin_structure.v1 import alignment_pb2


class AlignedPairs(NamedTuple):
    """The pairs of two structures; the attributes are those of ``Alignment``."""

    teacher: Structure
    student: Structure
    pairs: Table
    stacks: Sequence[alignment_pb2.Stack]


def read_pairs(data: bytes, teacher: Structure, student: Structure) -> AlignedPairs:
    """The pairs of a serialized ``alignment_pb2.Alignment`` of these two structures."""
    message = alignment_pb2.Alignment.FromString(data)
    pairs = Table.from_proto(message.pairs, Strings(message.strings), ALIGNMENT_PAIRS)
    return AlignedPairs(teacher, student, pairs, list(message.stacks))
