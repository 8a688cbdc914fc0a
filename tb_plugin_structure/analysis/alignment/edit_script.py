"""What changed, line by line, at the coarsest level that says it all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
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
_Ranked = tuple[int, alignment_pb2.Edit]
"""An edit and its place: the largest first, as a negative number."""


def edit_script(
    rows: Sequence[Row],
    stacks: Sequence[alignment_pb2.Stack],
    teacher: Structure,
    student: Structure,
    shared: Sequence[alignment_pb2.Edit] = (),
    functions: Mapping[int, str] = MappingProxyType({}),
) -> list[alignment_pb2.Edit]:
    """Edits, coarsest first: stacks whose length changes, modules that one side shares, then subtrees only one side
    has and changed leaves, last what is a module here and a function there.

    Changes inside the blocks of one stack are told once, with a count.

    Args:
        rows: The merged tree.
        stacks: Pairs of stacks.
        teacher: The teacher's record.
        student: The student's record.
        shared: What is one module in one model only.
        functions: Rows of modules in whose place the other model calls a function -> what is given to it otherwise.
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
    edits += shared
    in_stack = _inside_stacks(rows)
    sizes = _row_sizes(rows)
    sides = _Side(teacher), _Side(student)
    ranked: list[_Ranked] = []
    in_blocks: list[tuple[int, int, alignment_pb2.Edit]] = []
    elsewhere: dict[tuple[int, str], list[_Ranked]] = {}
    resized: dict[tuple[int, str], list[alignment_pb2.Edit]] = {}
    for number in range(len(rows)):
        edit = _edit_of(number, rows, in_stack, *sides, functions.get(number))
        if edit is None:
            continue
        size = 0 if number in functions else sizes[number]
        if in_stack[number] >= 0:
            in_blocks.append((in_stack[number], size, edit))
        elif edit.kind == RESIZED:
            resized.setdefault((rows[number].parent, edit.text.rpartition(": ")[2]), []).append(edit)
        else:
            elsewhere.setdefault((edit.kind, edit.text), []).append((-size, edit))
    for (parent, change), siblings in resized.items():
        ranked += [(-len(siblings), edit) for edit in _together(siblings, parent, change, rows, teacher, student)]
    ranked += _of_blocks(in_blocks, stacks)
    ranked += [_counted(same) for same in elsewhere.values()]
    found = edits + [edit for _, edit in sorted(ranked, key=lambda item: item[0])]
    return found or _of_composites(rows, in_stack, *sides)


def _of_composites(
    rows: Sequence[Row], in_stack: Sequence[int], teacher: _Side, student: _Side
) -> list[alignment_pb2.Edit]:
    """What composites of one class state otherwise, where nothing else differs: "blocks.#: heads 2 → 4 (×3)".

    Beside other changes it is left out: a block's own index or a model's depth differ because those do.
    """
    told: dict[str, list[tuple[str, str]]] = {}
    for number, row in enumerate(rows):
        if not row.children or row.teacher < 0 or row.student < 0 or row.kind != RECONFIGURED:
            continue
        module_t, module_s = teacher.module[row.teacher], student.module[row.student]
        changed = _changed_attributes(module_t, module_s, teacher.structure, student.structure)
        if changed and teacher.classes[module_t] == student.classes[module_s]:
            path = student.paths[module_s]
            shown = _hide_block(path) if in_stack[number] >= 0 else path or "model"
            told.setdefault(f"{shown}: {changed}", []).append((teacher.paths[module_t], path))
    return [
        alignment_pb2.Edit(
            text=text + (f" (×{len(paths)})" if len(paths) > 1 else ""),
            kind=alignment_pb2.PAIR_KIND_RECONFIGURED,
            teacher_path=paths[0][0],
            student_path=paths[0][1],
        )
        for text, paths in told.items()
    ]


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


def _of_blocks(
    changes: Sequence[tuple[int, int, alignment_pb2.Edit]], stacks: Sequence[alignment_pb2.Stack]
) -> list[_Ranked]:
    """What changed inside blocks, told once for all blocks of a stack, and once for all stacks where stages are
    numbered: "layer#.#.conv3 (Conv2d) only in the teacher (×8)".

    Args:
        changes: (stack, size, edit) of each change.
        stacks: Pairs of stacks.
    """
    layers: dict[tuple[int, str], list[alignment_pb2.Edit]] = {}
    for stack, _, edit in changes:
        if edit.kind == RESIZED:
            layers.setdefault((stack, edit.text.rpartition(": ")[2]), []).append(edit)
    ranked = []
    told: dict[tuple[int, str], list[_Ranked]] = {}
    for (stack, change), alike in layers.items():
        if len({edit.text for edit in alike}) > _MOST_NAMED:
            ranked.append(_in_all_blocks(stacks[stack], change, len(alike)))
            continue
        for edit in alike:
            told.setdefault((RESIZED, _any_stage(edit.text)), []).append((-1, edit))
    for _, size, edit in changes:
        if edit.kind != RESIZED:
            told.setdefault((edit.kind, _any_stage(edit.text)), []).append((-size, edit))
    for (_, text), same in told.items():
        first = same[0][1]
        if any(edit.text != first.text for _, edit in same):
            first.text = text
        elif len(same) == 1:  # a change in one block of a stack says in which
            path = first.student_path or first.teacher_path
            first.text = first.text.replace(_hide_block(path), path, 1)
        ranked.append(_counted(same))
    return ranked


def _counted(same: Sequence[_Ranked]) -> _Ranked:
    """Equal changes, told once with their number."""
    rank, first = same[0]
    if len(same) > 1:
        first.text += f" (×{len(same)})"
    return rank * len(same), first


def _in_all_blocks(stack: alignment_pb2.Stack, change: str, layers: int) -> _Ranked:
    """Layers of a stack's blocks that change alike: "layers.#: output 197×768 → 197×192 (96 layers)"."""
    shown = f"{_hide_block(stack.student_path)}.#".lstrip(".")
    return -layers, alignment_pb2.Edit(
        text=f"{shown}: {change} ({layers} layers)",
        kind=alignment_pb2.PAIR_KIND_RESIZED,
        teacher_path=stack.teacher_path,
        student_path=stack.student_path,
    )


def _any_stage(text: str) -> str:
    """A change in a block, whichever numbered stage it lies in: "layer2.#.relu …" as "layer#.#.relu …"."""
    stage, block, rest = text.partition(".#")
    return re.sub(r"\d+(?=\.|$)", "#", stage) + block + rest if block else text


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
    number: int, rows: Sequence[Row], in_stack: Sequence[int], teacher: _Side, student: _Side, function: str | None
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
        shown = _hide_block(path) if in_stack[number] >= 0 else path or "a further call of the model"
        return alignment_pb2.Edit(
            text=f"{shown} ({side.classes[module]}) {_in_place(whose, function)}",
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


def _in_place(whose: str, changed: str | None) -> str:
    """What the other model has in the place of a module: nothing, or a function that is given `changed` otherwise."""
    if changed is None:
        return f"only in the {whose}"
    text = f"is a function call in the {'teacher' if whose == 'student' else 'student'}"
    return f"{text}, {changed}" if changed else text


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
