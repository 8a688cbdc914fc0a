"""A plan: which student part is to learn from which teacher part. Intent, never a result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tb_plugin_structure.records import blobs
from tb_plugin_structure.records.schema import FORMAT_VERSION
from tb_plugin_structure.v1 import plan_pb2

Pins = Mapping[str, "str | Sequence[str] | None"]
StackPolicies = Mapping[str, "str | Sequence[int]"]
"""Student stack path -> a policy's name, or the block of the longer stack for each block of the shorter one."""


def build_plan(
    teacher: str,
    student: str,
    *,
    pins: Pins | None = None,
    policy: str = "",
    stack_policies: StackPolicies | None = None,
) -> plan_pb2.Plan:
    """`pins`: student path -> teacher path, several teacher paths, or None for "no counterpart"."""
    plan = plan_pb2.Plan(
        format_version=FORMAT_VERSION,
        minimum_reader_version=1,
        teacher=teacher,
        student=student,
        policy=policy,
        stack_policies={stack: _policy_text(chosen) for stack, chosen in (stack_policies or {}).items()},
    )
    for path, target in (pins or {}).items():
        targets = [] if target is None else [target] if isinstance(target, str) else list(target)
        plan.pins.add(student_path=path, teacher_paths=targets)
    return plan


def decode_plan(stored: Sequence[bytes]) -> plan_pb2.Plan:
    """Read a record. Raises :class:`~tb_plugin_structure.records.blobs.RecordError` when it is damaged."""
    data = blobs.check_header(stored, "plan")
    try:
        plan = plan_pb2.Plan.FromString(data)
    except Exception as error:
        raise blobs.RecordError(f"a plan is damaged: {error}") from error
    blobs.check_version("plan", plan.minimum_reader_version)
    return plan


def plan_policies(plan: plan_pb2.Plan) -> dict[str, str | list[int]]:
    """The policies of single stacks as ``align(policy=...)`` takes them."""
    return {stack: _policy(text) for stack, text in plan.stack_policies.items()}


def _policy_text(policy: str | Sequence[int]) -> str:
    return policy if isinstance(policy, str) else ",".join(str(int(block)) for block in policy)


def _policy(text: str) -> str | list[int]:
    """Names begin with a letter; -1 says that a block has no counterpart."""
    blocks = text.split(",")
    return [int(block) for block in blocks] if all(_BLOCK.fullmatch(block) for block in blocks) else text


_BLOCK = re.compile(r"-?[0-9]{1,9}")


def plan_pins(plan: plan_pb2.Plan) -> dict[str, str | list[str] | None]:
    """The pins as ``align(pins=...)`` takes them."""
    pins: dict[str, str | list[str] | None] = {}
    for pin in plan.pins:
        paths = list(pin.teacher_paths)
        pins[pin.student_path] = None if not paths else paths[0] if len(paths) == 1 else paths
    return pins
