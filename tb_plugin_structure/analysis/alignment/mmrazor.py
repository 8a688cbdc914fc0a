"""mmrazor: what a ``ConfigurableDistiller`` records, projects and compares for pairs of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tb_plugin_structure.records.structure import Structure


def distiller(teacher: Structure, student: Structure, pairs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The configuration of the distiller, and why a pair is not in it.

    A connector makes the student as wide as the teacher where widths differ: a 1x1 convolution for images [N, C, H, W],
    a linear layer for what keeps its channels last. A pair that differs in more than its width, or of which mmrazor
    cannot address the output, is listed under "not expressible".

    Args:
        teacher: The teacher's record.
        student: The student's record.
        pairs: (teacher call, student call).
    """
    made: dict[str, dict[str, Any]] = {part: {} for part in _PARTS}
    left_out: dict[str, str] = {}
    for call_t, call_s in pairs:
        path_t, path_s = teacher.call_path(call_t), student.call_path(call_s)
        name = path_s.replace(".", "_")
        if name in made["student_recorders"]:
            name = f"{name}_{len(made['student_recorders'])}"
        try:
            end_t, end_s = _end(teacher, call_t, name), _end(student, call_s, name)
            connector = _connector(_shape(teacher, call_t), _shape(student, call_s))
        except ValueError as error:
            left_out[path_s or "the model"] = str(error)
            continue
        made["student_recorders"][name] = {"type": "ModuleOutputs", "source": path_s}
        made["teacher_recorders"][name] = {"type": "ModuleOutputs", "source": path_t}
        if connector is not None:
            made["connectors"][f"{name}_connector"] = connector
            end_s["connector"] = f"{name}_connector"
        made["distill_losses"][f"loss_{name}"] = {"type": "L2Loss", "loss_weight": 1.0}
        made["loss_forward_mappings"][f"loss_{name}"] = {
            "s_feature": {"from_student": True, **end_s},
            "t_feature": {"from_student": False, **end_t},
        }
    found: dict[str, Any] = {"distiller": {"type": "ConfigurableDistiller", **made}}
    if left_out:
        found["not expressible"] = left_out
    return found


_PARTS = ("student_recorders", "teacher_recorders", "connectors", "distill_losses", "loss_forward_mappings")


def _end(structure: Structure, call: int, recorder: str) -> dict[str, Any]:
    """The recorder, which call of the module it is, and which element of a tuple that it returned."""
    if not structure.call_path(call):
        raise ValueError("recorders watch modules inside the model, not the model")
    end: dict[str, Any] = {"recorder": recorder}
    ordinal = int(structure.module_calls["ordinal"][call])
    if ordinal:
        end["record_idx"] = ordinal
    names = structure.module_calls.texts("output_names", call)
    if not names:
        raise ValueError(f"{structure.call_path(call)!r} of {structure.name!r} returns no tensor")
    if names[0].isdigit():
        end["data_idx"] = int(names[0])
    elif names[0]:
        raise ValueError(f"{structure.call_path(call)!r} of {structure.name!r} returns {names[0]!r} in a structure")
    return end


def _shape(structure: Structure, call: int) -> tuple[int, ...]:
    return structure.shape(int(structure.module_calls.values("outputs", call)[0]))


def _connector(teacher: tuple[int, ...], student: tuple[int, ...]) -> dict[str, Any] | None:
    """What makes the student's output as wide as the teacher's; None where they are equal (but for the batch)."""
    rest_t, rest_s = teacher[1:], student[1:]
    if len(teacher) == len(student):
        if rest_t == rest_s:
            return None
        if len(teacher) == 4 and rest_t[1:] == rest_s[1:]:
            return {
                "type": "ConvModuleConnector",
                "in_channel": rest_s[0],
                "out_channel": rest_t[0],
                "bias": False,
                "act_cfg": None,
            }
        if rest_t[:-1] == rest_s[:-1]:
            arguments = {"in_features": rest_s[-1], "out_features": rest_t[-1], "bias": False}
            return {"type": "TorchNNConnector", "module_name": "Linear", "module_args": arguments}
    raise ValueError(f"more than the width differs: {list(student)} in the student, {list(teacher)} in the teacher")
