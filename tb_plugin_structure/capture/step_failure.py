"""What stopped a recorded step between its models: in the loss, mostly, on two tensors that do not fit."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from torch import Tensor

from tb_plugin_structure.capture.call_sites import TORCH_ROOT
from tb_plugin_structure.capture.dispatch import OUTSIDE
from tb_plugin_structure.capture.events import outline
from tb_plugin_structure.capture.failures import is_users, user_line
from tb_plugin_structure.capture.observer import Observer
from tb_plugin_structure.v1 import structure_pb2


def step_error(
    observer: Observer, error: BaseException | None, name_of: Callable[[int], str]
) -> structure_pb2.CaptureError | None:
    """The error of what ran between the models; None when nothing failed, or inside a model.

    Args:
        observer: What saw the step.
        error: What left the region.
        name_of: Row of a value -> "student/layer" for what a model made, "" for others and for -1.
    """
    if error is None:
        return None
    same = [failure for failure in observer.failures if failure.error is error]
    if any(failure.call != OUTSIDE for failure in same):
        return None
    kernel = next((failure.kernel for failure in same if failure.kernel), "")
    function, tensors = _failing_call(error)
    operands = [f"{name_of(observer.values.known(tensor))} {outline(tensor)} {tensor.device}" for tensor in tensors]
    if not operands:  # an operator such as `-`: Python has no frame for it
        operands = [
            f"{name_of(row)} {operand}"
            for failure in same[:1]
            for row, operand in zip(failure.rows, failure.operands, strict=True)
        ]
    return structure_pb2.CaptureError(
        type=type(error).__name__,
        message=str(error)[:2000],
        source=user_line(error),
        kernel=function or kernel,
        operands=[operand.strip() for operand in operands],
    )


def _failing_call(error: BaseException) -> tuple[str, list[Tensor]]:
    """The innermost function of torch that was given tensors by name (``mse_loss(input, target)``), and those."""
    found: tuple[str, list[Tensor]] = ("", [])
    for frame in _frames_inside_torch(error):
        code = frame.f_code
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
        tensors = [value for value in given if isinstance(value, Tensor)]
        if tensors:
            found = (code.co_name, tensors)
    return found


def _frames_inside_torch(error: BaseException) -> Iterator[FrameType]:
    """Torch's frames below the user's last one, outermost first."""
    frames = list(traceback.walk_tb(error.__traceback__))
    users = [place for place, (frame, _) in enumerate(frames) if is_users(_file(frame))]
    yield from (frame for frame, _ in frames[max(users, default=-1) + 1 :] if _file(frame).startswith(TORCH_ROOT))


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename
