"""Alignments written by hand, so that these tests say which modules face each other."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2


def pair_by_path(teacher: Structure, student: Structure, pins: Mapping[str, str] | None = None) -> Any:
    """Calls of equal path face each other; `pins` (student path -> teacher path) say otherwise. The first call of a
    module faces the first, and so on; the rest is only on one side."""
    pins = dict(pins or {})
    of_teacher: dict[str, list[int]] = {}
    for call in range(teacher.module_calls.rows):
        of_teacher.setdefault(teacher.call_path(call), []).append(call)
    pinned = set(pins.values())
    pairs: list[Any] = []
    taken: set[int] = set()

    def add(t: int, s: int, kind: int) -> None:
        pairs.append(
            SimpleNamespace(
                teacher=t, student=s, parent=-1, kind=kind, confidence=1.0, evidence=["same name"], group=-1, stack=-1
            )
        )

    for call in range(student.module_calls.rows):
        path = student.call_path(call)
        target = pins.get(path, path if path not in pinned else None)
        free = [c for c in of_teacher.get(target, []) if c not in taken] if target is not None else []
        if free:
            taken.add(free[0])
            add(free[0], call, alignment_pb2.PAIR_KIND_RESIZED)
        else:
            add(-1, call, alignment_pb2.PAIR_KIND_INSERTED)
    for call in range(teacher.module_calls.rows):
        if call not in taken:
            add(call, -1, alignment_pb2.PAIR_KIND_DELETED)
    return SimpleNamespace(teacher=teacher, student=student, pairs=pairs, stacks=[])
