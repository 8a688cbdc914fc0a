"""How many pairs of each kind, and how much of the model they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tb_plugin_structure.analysis.alignment.merged import Row
from tb_plugin_structure.analysis.alignment.pair_kinds import DELETED, KIND_NAMES
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2


def kind_counts(rows: Sequence[Row], teacher: Structure, student: Structure) -> list[alignment_pb2.KindCount]:
    """A count for each kind that occurs; parameters of the student, of the teacher where only it has the module."""
    calls = dict.fromkeys(KIND_NAMES, 0)
    leaves = dict.fromkeys(KIND_NAMES, 0)
    held: dict[int, set[int]] = {kind: set() for kind in KIND_NAMES}
    own = {side: structure.modules.column_lists("parameters") for side, structure in _sides(teacher, student)}
    module = {side: structure.module_calls["module"].tolist() for side, structure in _sides(teacher, student)}
    children = {side: structure.call_children for side, structure in _sides(teacher, student)}
    for row in rows:
        calls[row.kind] += 1
        side, call = ("teacher", row.teacher) if row.student < 0 else ("student", row.student)
        if not children[side][call]:
            leaves[row.kind] += 1
            held[row.kind].update(own[side][module[side][call]])
    found = []
    for kind in KIND_NAMES:
        if calls[kind]:
            structure = teacher if kind == DELETED else student
            is_buffer, elements = structure.parameters["is_buffer"], structure.parameter_elements
            found.append(
                alignment_pb2.KindCount(
                    kind=cast(alignment_pb2.PairKind, kind),
                    leaves=leaves[kind],
                    calls=calls[kind],
                    parameters=sum(int(elements[row]) for row in held[kind] if not is_buffer[row]),
                )
            )
    return found


def _sides(teacher: Structure, student: Structure) -> tuple[tuple[str, Structure], ...]:
    return ("teacher", teacher), ("student", student)
