"""The outcome in words: one sentence, and an edit script at the coarsest level that says it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import cast

import numpy as np

from tb_plugin_structure.analysis.alignment.merged import Row
from tb_plugin_structure.analysis.alignment.numbering import first_rows, first_values, number_lists
from tb_plugin_structure.analysis.alignment.pair_kinds import (
    DELETED,
    INSERTED,
    RECONFIGURED,
    RESIZED,
    RETYPED,
    is_size,
)
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import alignment_pb2

_MOST_NAMED = 3


def ratio_text(student: float, teacher: float) -> str:
    """Student / teacher with two digits: "0.61"."""
    return f"{student / teacher:.2f}" if teacher else "–"


def edit_script(
    rows: Sequence[Row],
    stacks: Sequence[alignment_pb2.Stack],
    teacher: Structure,
    student: Structure,
) -> list[alignment_pb2.Edit]:
    """Edits, coarsest first: stacks whose length changes, then subtrees only one side has, then changed leaves.

    Changes inside the blocks of one stack are told once, with a count.
    """
    edits: list[alignment_pb2.Edit] = []
    for stack in stacks:
        if stack.teacher_blocks != stack.student_blocks:
            indices = ", ".join("–" if index < 0 else str(index) for index in stack.indices)
            shown = indices if len(stack.indices) <= 16 else indices[:40] + " …"
            edits.append(
                alignment_pb2.Edit(
                    text=f"{stack.teacher_path or 'model'} ×{stack.teacher_blocks} → ×{stack.student_blocks} "
                    f"({_by(stack.policy)}: {shown})",
                    kind=alignment_pb2.PAIR_KIND_RECONFIGURED,
                    teacher_path=stack.teacher_path,
                    student_path=stack.student_path,
                )
            )
    in_stack = _inside_stacks(rows)
    sizes = _row_sizes(rows)
    sides = _Side(teacher), _Side(student)
    ranked: list[tuple[int, alignment_pb2.Edit]] = []
    told: dict[tuple[object, ...], list[tuple[int, alignment_pb2.Edit]]] = {}
    resized: dict[tuple[int, str], list[alignment_pb2.Edit]] = {}
    for number in range(len(rows)):
        edit = _edit_of(number, rows, in_stack, *sides)
        if edit is None:
            continue
        inside = in_stack[number] >= 0
        if edit.kind == RESIZED and not inside:
            resized.setdefault((rows[number].parent, edit.text.rpartition(": ")[2]), []).append(edit)
        else:
            told.setdefault((edit.kind, edit.text, inside), []).append((sizes[number], edit))
    for (parent, change), siblings in resized.items():
        ranked += [(-len(siblings), edit) for edit in _together(siblings, parent, change, rows, teacher, student)]
    for (_, _, in_block), same in told.items():
        size, first = same[0]
        if len(same) > 1:
            first.text += f" (×{len(same)})"
        elif in_block:  # a change in one block of a stack says in which
            path = first.student_path or first.teacher_path
            first.text = first.text.replace(_hide_block(path), path, 1)
        ranked.append((-size * len(same), first))
    return edits + [edit for _, edit in sorted(ranked, key=lambda item: item[0])]


def _together(
    edits: list[alignment_pb2.Edit],
    parent: int,
    change: str,
    rows: Sequence[Row],
    teacher: Structure,
    student: Structure,
) -> list[alignment_pb2.Edit]:
    """The layers of one composite that change alike, told with it: "stem: output 16×32×32 → 8×32×32 (6 layers)"."""
    row = rows[parent] if parent >= 0 else None
    if len(edits) <= _MOST_NAMED or row is None or row.teacher < 0 or row.student < 0:
        return edits
    path_t, path_s = teacher.call_path(row.teacher), student.call_path(row.student)
    if not path_s:
        return edits
    text = f"{path_s}: {change} ({len(edits)} layers)"
    return [alignment_pb2.Edit(text=text, kind=edits[0].kind, teacher_path=path_t, student_path=path_s)]


def _row_sizes(rows: Sequence[Row]) -> list[int]:
    """Rows at or below each row."""
    sizes = [1] * len(rows)
    for number in range(len(rows) - 1, -1, -1):
        if rows[number].parent >= 0:
            sizes[rows[number].parent] += sizes[number]
    return sizes


def _by(policy: str) -> str:
    return f"by {policy}" if policy in ("weights", "pins", "stages") else f"policy {policy}"


def _inside_stacks(rows: Sequence[Row]) -> list[int]:
    """For each row the stack whose block it lies in or is; -1 for none."""
    found = [-1] * len(rows)
    for number, row in enumerate(rows):
        found[number] = row.stack if row.stack >= 0 else (found[row.parent] if row.parent >= 0 else -1)
    return found


class _Side:
    """What edits tell of the calls of one model."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.module: list[int] = structure.module_calls["module"].tolist()
        self.paths, self.classes = structure.module_paths, structure.module_classes
        self.children = structure.call_children

    @cached_property
    def outputs(self) -> list[str]:
        """The shape of the first tensor that each call returns, batch left out."""
        calls, tensors = self.structure.module_calls, self.structure.tensors
        returned = first_values(calls["outputs"], calls.offsets("outputs"))
        some = np.flatnonzero(returned >= 0)
        number = number_lists(tensors["shape"], tensors.offsets("shape"), returned[some])
        shapes = [self.structure.shape(tensor) for tensor in returned[some][first_rows(number)].tolist()]
        texts = ["×".join(map(str, shape[1:])) for shape in shapes]
        found = ["–"] * len(returned)
        for call, shape in zip(some.tolist(), number.tolist(), strict=True):
            found[call] = texts[shape]
        return found


def _edit_of(
    number: int, rows: Sequence[Row], in_stack: Sequence[int], teacher: _Side, student: _Side
) -> alignment_pb2.Edit | None:
    row = rows[number]
    if row.kind in (INSERTED, DELETED):
        if row.parent >= 0 and rows[row.parent].kind == row.kind:
            return None  # told with what it lies in
        if row.stack >= 0:
            return None  # told with its stack
        if any(rows[child].teacher >= 0 and rows[child].student >= 0 for child in row.children):
            return None  # a wrapper: what it holds is paired
        side, call, whose = (
            (student, row.student, "student") if row.kind == INSERTED else (teacher, row.teacher, "teacher")
        )
        module = side.module[call]
        path = side.paths[module]
        shown = _hide_block(path) if in_stack[number] >= 0 else path or "model"
        return alignment_pb2.Edit(
            text=f"{shown} ({side.classes[module]}) only in the {whose}",
            kind=cast(alignment_pb2.PairKind, row.kind),
            teacher_path="" if row.kind == INSERTED else path,
            student_path=path if row.kind == INSERTED else "",
        )
    if row.children or row.teacher < 0 or row.student < 0 or row.kind not in (RETYPED, RECONFIGURED, RESIZED):
        return None
    if row.group >= 0 and bool(teacher.children[row.teacher]) != bool(student.children[row.student]):
        return None  # a composite beside the leaf that it stands for
    if row.kind == RESIZED and teacher.outputs[row.teacher] == student.outputs[row.student]:
        return None
    module_t, module_s = teacher.module[row.teacher], student.module[row.student]
    path = student.paths[module_s]
    shown = _hide_block(path) if in_stack[number] >= 0 else path
    if row.kind == RETYPED:
        text = f"{shown}: {teacher.classes[module_t]} → {student.classes[module_s]}"
        changed = _changed_attributes(module_t, module_s, teacher.structure, student.structure)
        text += f", {changed}" if changed else ""
    elif row.kind == RECONFIGURED:
        modules = module_t, module_s, teacher.structure, student.structure
        text = f"{shown}: {_changed_attributes(*modules) or _changed_parameters(*modules)}"
    else:
        text = f"{shown}: output {teacher.outputs[row.teacher]} → {student.outputs[row.student]}"
    return alignment_pb2.Edit(
        text=text,
        kind=cast(alignment_pb2.PairKind, row.kind),
        teacher_path=teacher.paths[module_t],
        student_path=path,
    )


def _changed_attributes(module_t: int, module_s: int, teacher: Structure, student: Structure) -> str:
    """What both sides state and differs, sizes left out: "num_layers 3 → 1"."""
    class_t = teacher.module_classes[module_t]  # which recurrent layers state once more
    stated_t, stated_s = teacher.attributes(module_t), student.attributes(module_s)
    changed = [
        f"{name} {stated_t[name]} → {stated_s[name]}"
        for name in stated_t
        if name in stated_s and stated_t[name] != stated_s[name] and not is_size(name) and stated_t[name] != class_t
    ]
    return ", ".join(changed[:_MOST_NAMED]) + (" …" if len(changed) > _MOST_NAMED else "")


def _changed_parameters(module_t: int, module_s: int, teacher: Structure, student: Structure) -> str:
    """What only one side states or holds: "without bias"."""
    named = [
        {side.parameters.text("path", parameter).rpartition(".")[2] for parameter in side.module_parameters(module)}
        | set(side.attributes(module))
        for side, module in ((teacher, module_t), (student, module_s))
    ]
    parts = [
        f"{word} {', '.join(sorted(only)[:_MOST_NAMED])}"
        for word, only in (("without", named[0] - named[1]), ("with", named[1] - named[0]))
        if only
    ]
    return ", ".join(parts) or "configured otherwise"


def _hide_block(path: str) -> str:
    return ".".join("#" if piece.isdigit() else piece for piece in path.split("."))


def sentence(
    rows: Sequence[Row],
    stacks: Sequence[alignment_pb2.Stack],
    teacher: Structure,
    student: Structure,
    widths: Sequence[tuple[int, int]],
    stages: Sequence[tuple[str, str]],
) -> str:
    """One sentence a person could say aloud. Ratios are student / teacher.

    Args:
        rows: The merged tree.
        stacks: Stacks that lie in no block of another one.
        teacher: The teacher's record.
        student: The student's record.
        widths: Widths (teacher, student) of those stacks.
        stages: Paths that are paired as stages only, because the families are unlike.
    """
    for side, whose in ((teacher, "teacher"), (student, "student")):
        if not side.module_calls.rows:
            return f"The record of the {whose} ({side.name}) holds no module call: there is nothing to compare."
    substance = {DELETED: _with_parameters(teacher), INSERTED: _with_parameters(student)}
    if all(row.kind == alignment_pb2.PAIR_KIND_IDENTICAL for row in rows):
        counted = f"all {len(rows):,} module calls are" if len(rows) > 1 else "the only module call is"
        return f"Nothing changed: {counted} identical."
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
                side.call_path(row.teacher if kind == DELETED else row.student)
                for row in rows
                if _stands_alone(row, rows, kind) and substance[kind][row.teacher if kind == DELETED else row.student]
            ]
            paths = list(dict.fromkeys(listed))
            if paths:
                named = paths[:_MOST_NAMED]
                more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
                verb = "is" if len(paths) == 1 else "are"
                parts.append(f"{_listed(named) if not more else ', '.join(named)}{more} {verb} only in the {whose}")
    totals_t, totals_s = teacher.header.totals, student.header.totals
    ratios = []
    if totals_t.parameters:
        ratios.append(f"{ratio_text(totals_s.parameters, totals_t.parameters)} × parameters")
    if totals_t.macs and totals_s.macs:
        ratios.append(f"{ratio_text(totals_s.macs, totals_t.macs)} × MACs")
    if ratios:
        parts.append(", ".join(ratios))
    return "; ".join(parts) + "."


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
