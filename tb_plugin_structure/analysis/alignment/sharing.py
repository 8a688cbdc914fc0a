"""Modules that are one instance in one model and several in the other: ``blocks[3] = blocks[2]``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tb_plugin_structure.analysis.alignment.merged import Row
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2

_MOST_NAMED = 3


def sharing_edits(rows: Sequence[Row], teacher: Structure, student: Structure) -> list[alignment_pb2.Edit]:
    """A line for each module with parameters that only one model registers under several paths.

    What lies inside such a module is shared with it and not told again.
    """
    registered = {id(side): np.flatnonzero(np.diff(side.modules.offsets("aliases"))) for side in (teacher, student)}
    if not any(map(len, registered.values())):
        return []
    calls_t, calls_s = teacher.module_calls["module"].tolist(), student.module_calls["module"].tolist()
    of_t: defaultdict[int, set[int]] = defaultdict(set)
    of_s: defaultdict[int, set[int]] = defaultdict(set)
    for row in rows:
        if row.teacher >= 0 and row.student >= 0:
            of_t[calls_t[row.teacher]].add(calls_s[row.student])
            of_s[calls_s[row.student]].add(calls_t[row.teacher])
    found = []
    for side, other, counterparts, whose in ((student, teacher, of_s, "student"), (teacher, student, of_t, "teacher")):
        for module in registered[id(side)].tolist():
            aliases = _own_aliases(side, module)
            shared_alike = any(len(_own_aliases(other, of_other)) == len(aliases) for of_other in counterparts[module])
            if not aliases or shared_alike or not side.module_parameters(module):
                continue
            path = side.module_paths[module]
            paths = {"teacher_path": path} if whose == "teacher" else {"student_path": path}
            text = f"{_listed(aliases)} {path} (shared, in the {whose})"
            found.append(alignment_pb2.Edit(text=text, kind=alignment_pb2.PAIR_KIND_RECONFIGURED, **paths))
    return found


def _own_aliases(structure: Structure, module: int) -> list[str]:
    """Further paths of a module that do not come from what it lies in."""
    parent = int(structure.modules["parent"][module])
    above = structure.modules.texts("aliases", parent) if parent >= 0 else []
    return [
        path
        for path in structure.modules.texts("aliases", module)
        if not any(path.startswith(f"{shared}.") for shared in above)
    ]


def _listed(paths: Sequence[str]) -> str:
    named = ", ".join(paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"{named}{more} {'is' if len(paths) == 1 else 'are'}"
