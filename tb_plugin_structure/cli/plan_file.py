"""Writes pins and policies into a run, as ``StructureWriter.add_plan`` does, from the file that the Graph diff gives.

The file is JSON, ``{"teacher": "…", "student": "…", "policy": "copy", "policies": {…}, "pins": {…}}``, of which
only what is decided must be there. TensorBoard's server writes nothing, so this is how a plan made in the tab gets
into the run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tb_plugin_structure import event_file
from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.cli.event_files import AddressError, EventFiles
from tb_plugin_structure.records import names
from tb_plugin_structure.records.plan import build_plan


class PlanError(ValueError):
    """The file is no plan, or it does not fit the models; the message says what would."""


def write_plan(options: argparse.Namespace) -> int:
    """``tb-structure plan FILE --logdir RUN``. Returns the exit code."""
    plan = read_plan(Path(options.file))
    teacher = options.teacher or plan.get("teacher") or "teacher"
    student = options.student or plan.get("student") or "student"
    folder = Path(options.logdir)
    checked = _check(folder, teacher, student, plan)
    message = build_plan(teacher, student, pins=plan["pins"], policy=plan["policy"], stack_policies=plan["policies"])
    file = event_file.OwnEventFile(folder)
    tag = names.plan_tag(teacher, student)
    step = _next_step(Path(file.logdir), tag) if options.step is None else options.step
    file.add_event(event_file.record_event(names.PLAN_PLUGIN, tag, [message.SerializeToString()], step))
    file.close()
    print(f"wrote {len(plan['pins'])} pins for {teacher} and {student} into {file.logdir}, step {step}")
    if not checked:
        print(f"not checked: {folder} holds no structures of these two models", file=sys.stderr)
    return 0


def read_plan(path: Path) -> dict[str, Any]:
    """The plan with all of its keys. Raises :class:`PlanError` naming what is wrong with the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PlanError(f"{str(path)!r} is not JSON: {error}") from error
    if not isinstance(value, dict) or not value.keys() & {"pins", "policies", "policy"}:
        raise PlanError(f'{str(path)!r}: a plan is an object with "pins", "policies" or "policy"')
    plan = {"policy": "", "policies": {}, "pins": {}, **value}
    if not isinstance(plan["policy"], str):
        raise PlanError(f'{str(path)!r}: "policy" must be a name')
    for key in ("policies", "pins"):
        if not isinstance(plan[key], dict):
            raise PlanError(f'{str(path)!r}: "{key}" must be an object')
    for stack, policy in plan["policies"].items():
        blocks = policy if isinstance(policy, list) else []
        if not isinstance(policy, (str, list)) or not all(type(block) is int for block in blocks):
            raise PlanError(f"the policy of {stack!r} must be a name or a list of block numbers")
    for student, teacher in plan["pins"].items():
        paths = teacher if isinstance(teacher, list) else [teacher]
        if not all(path is None or isinstance(path, str) for path in paths):
            raise PlanError(f"the pin of {student!r} must be a path, a list of paths, or null")
    return plan


def _check(folder: Path, teacher: str, student: str, plan: dict[str, Any]) -> bool:
    """Whether the models are there; raises PlanError when the plan does not fit them."""
    try:
        files = EventFiles.read(folder)
        sides = [files.find(model)[1] for model in (teacher, student)]
    except AddressError:
        return False
    try:
        policy = {"": plan["policy"] or "copy", **plan["policies"]}
        align(teacher=sides[0], student=sides[1], policy=policy, pins=plan["pins"])
    except ValueError as error:
        raise PlanError(str(error)) from error
    return True


def _next_step(folder: Path, tag: str) -> int:
    """After the plans that are there: of one tag steps must rise."""
    from tensorboard.backend.event_processing import event_file_loader

    steps = [-1]
    for file in folder.glob("*tfevents*") if folder.is_dir() else ():
        for event in event_file_loader.LegacyEventFileLoader(str(file)).Load():
            steps += [int(event.step) for value in event.summary.value if value.tag == tag]
    return max(steps) + 1
