"""The outcome in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

import numpy as np

from tb_plugin_structure.analysis.alignment.arguments import changed_arguments
from tb_plugin_structure.analysis.alignment.merged import Row
from tb_plugin_structure.analysis.alignment.pair_kinds import (
    DELETED,
    IDENTICAL,
    INSERTED,
    RECONFIGURED,
    RESIZED,
    RETYPED,
)
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2

_MOST_NAMED = 3


def ratio_text(student: float, teacher: float) -> str:
    """Student / teacher with two digits: "0.61"."""
    return f"{student / teacher:.2f}" if teacher else "–"


def sentence(
    rows: Sequence[Row],
    stacks: Sequence[alignment_pb2.Stack],
    teacher: Structure,
    student: Structure,
    widths: Sequence[tuple[int, int]],
    stages: Sequence[tuple[str, str]],
    shared: Sequence[str] = (),
    functions: Set[int] = frozenset(),
) -> str:
    """One sentence a person could say aloud. Ratios are student / teacher.

    Args:
        rows: The merged tree.
        stacks: Stacks that lie in no block of another one.
        teacher: The teacher's record.
        student: The student's record.
        widths: Widths (teacher, student) of those stacks.
        stages: Paths that are paired as stages only, because the families are unlike.
        shared: What is one module in one model only.
        functions: Rows of modules in whose place the other model calls a function.
    """
    for side, whose in ((teacher, "teacher"), (student, "student")):
        if not side.module_calls.rows:
            return f"The record of the {whose} ({side.name}) holds no module call: there is nothing to compare."
    substance = {DELETED: _with_parameters(teacher), INSERTED: _with_parameters(student)}
    nothing = "" if shared else _nothing_changed(rows, teacher, student, functions)
    if nothing:
        return nothing
    changed = [stack for stack in stacks if stack.teacher_blocks != stack.student_blocks]
    if stages:
        shown = [f"{path_t} ~ {path_s}" for path_t, path_s in stages[:4]]
        first = "The families are unlike and paired by stage: " + _listed(shown)
    elif changed:
        shown = [_depth_text(stack) for stack in changed[:4]]
        more = f" and {len(changed) - 4} more stacks" if len(changed) > 4 else ""
        first = "The student has " + (_listed(shown) if not more else ", ".join(shown)) + more
    elif stacks:
        first = "The student keeps the depth of every stack"
    elif _all_have_counterparts(rows, substance):
        first = _likeness_text(rows)
    else:
        first = _counterparts_text(rows, student, substance[INSERTED])
    parts = [first + _width_text(widths)]
    if not stages:
        for kind, side, whose in ((DELETED, teacher, "teacher"), (INSERTED, student, "student")):
            listed = [
                side.call_path(row.teacher if kind == DELETED else row.student) or "a further call of the model"
                for row in rows
                if _stands_alone(row, rows, kind) and substance[kind][row.teacher if kind == DELETED else row.student]
            ]
            paths = list(dict.fromkeys(listed))
            if paths:
                named = paths[:_MOST_NAMED]
                more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
                verb = "is" if len(paths) == 1 else "are"
                parts.append(f"{_listed(named) if not more else ', '.join(named)}{more} {verb} only in the {whose}")
    parts += shared
    totals_t, totals_s = teacher.header.totals, student.header.totals
    ratios = []
    if totals_t.parameters:
        ratios.append(f"{ratio_text(totals_s.parameters, totals_t.parameters)} × parameters")
    if totals_t.macs and totals_s.macs:
        ratios.append(f"{ratio_text(totals_s.macs, totals_t.macs)} × MACs")
    if ratios:
        parts.append(", ".join(ratios))
    return "; ".join(parts) + "."


def _nothing_changed(rows: Sequence[Row], teacher: Structure, student: Structure, functions: Set[int]) -> str:
    """What to say of two models that run the same, however their modules are named and grouped; "" for others."""
    told = identical = [row for row in rows if row.kind == IDENTICAL]
    further = teacher.module_calls.rows - student.module_calls.rows
    told_calls = min(teacher.module_calls.rows, student.module_calls.rows)
    if len(identical) == len(rows):
        what, between = "all {:,} module calls are" if told_calls > 1 else "the only module call is", ""
        if further:  # modules around others that only hand on what those return
            whose, modules = "teacher" if further > 0 else "student", "modules" if abs(further) > 1 else "module"
            between = f"; the {whose} wraps them in {abs(further):,} further {modules}"
    else:
        told = identical + [rows[number] for number in functions]
        for side, calls in ((teacher, {row.teacher for row in told}), (student, {row.student for row in told})):
            if any(not below and call not in calls for call, below in enumerate(side.call_children)):
                return ""
        others = (row.kind for number, row in enumerate(rows) if number not in functions)
        regrouped = any(kind not in (IDENTICAL, RECONFIGURED, RESIZED) for kind in others)
        what, between = "all {:,} layers are", "; modules are grouped otherwise" if regrouped else ""
        told_calls = sum(not student.call_children[row.student] for row in identical)
        for kind, whose in ((INSERTED, "teacher"), (DELETED, "student")):
            count = sum(rows[number].kind == kind for number in functions)
            if count:
                verb = "modules are function calls" if count > 1 else "module is a function call"
                between += f"; {count} {verb} in the {whose}"
    said = f"{what.format(told_calls)} identical{between}"
    ran_t, ran_s = (
        Counter(name.rstrip("_") for name in side.operators.column_texts("name")) for side in (teacher, student)
    )
    if ran_t == ran_s:
        changed = changed_arguments(teacher, student)
        if changed:
            more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            said += f"; functions are called otherwise: {', '.join(changed[:_MOST_NAMED])}{more}"
            return f"{said[0].upper()}{said[1:]}."
        same = len(told) == len(rows) or _configured_alike(rows, teacher, student)
        return f"Nothing changed: {said}." if same else ""
    for only, whose in ((ran_t - ran_s, "teacher"), (ran_s - ran_t, "student")):
        if only:
            named = [f"{name} (×{count})" for name, count in only.most_common(_MOST_NAMED)]
            more = " and others" if len(only) > _MOST_NAMED else ""
            said += f"; only in the {whose} {'runs' if only.total() == 1 else 'run'} {', '.join(named)}{more}"
    return f"{said[0].upper()}{said[1:]}."


def _configured_alike(rows: Sequence[Row], teacher: Structure, student: Structure) -> bool:
    """Whether modules of one class state the same (a number of heads), and operators make the same shapes, batch left
    out."""
    modules_t, modules_s = teacher.module_calls["module"].tolist(), student.module_calls["module"].tolist()
    pairs = {(modules_t[row.teacher], modules_s[row.student]) for row in rows if row.teacher >= 0 and row.student >= 0}
    if any(
        teacher.module_classes[of_t] == student.module_classes[of_s]
        and teacher.attributes(of_t) != student.attributes(of_s)
        for of_t, of_s in pairs
    ):
        return False
    made_t, made_s = (
        Counter(
            side.shape(int(side.operators.values("outputs", row)[0]))[1:]
            for row in range(side.operators.rows)
            if len(side.operators.values("outputs", row))
        )
        for side in (teacher, student)
    )
    return made_t == made_s


def _all_have_counterparts(rows: Sequence[Row], substance: Mapping[int, Sequence[bool]]) -> bool:
    """Whether everything that holds parameters has a counterpart."""
    return not any(
        (row.kind == DELETED and substance[DELETED][row.teacher])
        or (row.kind == INSERTED and substance[INSERTED][row.student])
        for row in rows
    )


def _likeness_text(rows: Sequence[Row]) -> str:
    """How like the layers (rows that hold nothing) of two models are whose layers all have a counterpart."""
    kinds = [row.kind for row in rows if not row.children]
    others = [
        f"{kinds.count(kind)} {what}"
        for kind, what in ((RETYPED, "of another type"), (RECONFIGURED, "configured otherwise"))
        if kind in kinds
    ]
    return (
        "The student has the teacher's layers, " + " and ".join(others)
        if others
        else "The student is built like the teacher"
    )


def _counterparts_text(rows: Sequence[Row], student: Structure, with_parameters: Sequence[bool]) -> str:
    """How many of the student's layers (calls that hold parameters and call nothing) have a counterpart."""
    children = student.call_children
    layers = {
        row.student: row.teacher >= 0
        for row in sorted(rows, key=lambda row: row.teacher)
        if row.student >= 0 and not children[row.student] and with_parameters[row.student]
    }
    return f"{sum(layers.values())} of the student's {len(layers)} layers with parameters have a counterpart"


def _depth_text(stack: alignment_pb2.Stack) -> str:
    return (
        f"{stack.student_blocks} of {stack.teacher_blocks} blocks of {stack.teacher_path or 'the model'}"
        if (stack.student_blocks < stack.teacher_blocks)
        else f"{stack.student_blocks} blocks for the {stack.teacher_blocks} of {stack.teacher_path or 'the model'}"
    )


def _width_text(widths: Sequence[tuple[int, int]]) -> str:
    if not widths:
        return ""
    teacher, student = [width for width, _ in widths], [width for _, width in widths]
    if len(set(widths)) == 1:
        return f", width {teacher[0]} {'=' if teacher[0] == student[0] else '→'} {student[0]}"
    equal = "=" if teacher == student else "→"
    return f", widths {min(teacher)}–{max(teacher)} {equal} {min(student)}–{max(student)}"


def _with_parameters(structure: Structure) -> list[bool]:
    """Whether the module of each call holds parameters: what holds none is in the edit script, not in the sentence."""
    found = (np.diff(structure.modules.offsets("parameters").astype(np.int64)) > 0).tolist()
    parents = structure.modules["parent"].tolist()
    for module in range(len(parents) - 1, 0, -1):
        if found[module]:
            found[parents[module]] = True
    return [found[module] for module in structure.module_calls["module"].tolist()]


def _stands_alone(row: Row, rows: Sequence[Row], kind: int) -> bool:
    """Whether only one side has a row, and it is neither told with what it lies in nor inside a block."""
    if row.kind != kind or row.stack >= 0 or (row.parent >= 0 and rows[row.parent].kind == kind):
        return False
    return not _in_block(row, rows) and not any(
        rows[child].teacher >= 0 and rows[child].student >= 0 for child in row.children
    )


def _in_block(row: Row, rows: Sequence[Row]) -> bool:
    while row.parent >= 0:
        row = rows[row.parent]
        if row.stack >= 0:
            return True
    return False


def _listed(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]
