"""Why a pass stopped, in a message that names the place, the operands and, where it is known, the fix."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

from torch import nn

from tb_plugin_structure.capture.call_sites import TORCH_ROOT, relative_file
from tb_plugin_structure.capture.events import Failure
from tb_plugin_structure.capture.observer import ObservedModel, Observer
from tb_plugin_structure.capture.weightless import VALUE_ERRORS
from tb_plugin_structure.v1 import structure_pb2


def failure_of(observer: Observer, model: ObservedModel) -> Failure | None:
    """The failure that ended a call of the model; None when its calls returned."""
    index = observer.models.index(model)
    raised = [number for number, call in enumerate(observer.calls) if call.model == index and call.raised]
    roots = [number for number in raised if observer.calls[number].parent < 0]
    if not roots:
        return None
    # The innermost failing call says where; the failing kernel, if one failed with the same error, says what.
    root = roots[-1]
    candidates = [failure for failure in observer.failures if failure.call >= root]
    if not candidates:
        return None
    first = candidates[-1].error
    same = [failure for failure in candidates if failure.error is first]
    return next((failure for failure in same if failure.kernel), same[0])


def capture_error(observer: Observer, model: ObservedModel) -> structure_pb2.CaptureError | None:
    """The header's error message for a model, None when nothing failed."""
    failure = failure_of(observer, model)
    if failure is None:
        return None
    index = observer.models.index(model)
    raised = [call for call in observer.calls if call.model == index and call.raised]
    path = model.table.entries[raised[-1].module].path if raised else ""
    return structure_pb2.CaptureError(
        type=type(failure.error).__name__,
        message=str(failure.error)[:2000],
        module_path=path,
        source=user_line(failure.error),
        kernel=failure.kernel,
        operands=failure.operands,
    )


def is_users(filename: str) -> bool:
    """Whether a file is neither torch's nor ours."""
    return not filename.startswith((TORCH_ROOT, __file__.rpartition("capture")[0]))


def user_line(error: BaseException) -> str:
    """'file:line' of the innermost frame that is neither torch's nor ours."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users(frame.filename):
            return f"{relative_file(frame.filename)}:{frame.lineno}"
    return ""


def explain(
    name: str,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: BaseException,
    recorded: structure_pb2.CaptureError | None = None,
) -> str:
    """What failed, where and on which operands, and the fix where there is a usual one. `recorded`: what the record
    says of the failure."""
    where = f"{name!r} ({type(model).__name__})"
    text = (
        f"the forward pass of {where} raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    )
    if isinstance(error, TypeError):
        try:
            signature = inspect.signature(model.forward)
            signature.bind(*args, **kwargs)
        except TypeError as mismatch:
            given = ", ".join([type(arg).__name__ for arg in args] + [f"{key}=" for key in kwargs]) or "nothing"
            return (
                f"{where} cannot be called this way: {mismatch}. Its forward takes {signature}, not ({given}). "
                "Pass positional inputs as args=(...) and keyword inputs as kwargs={...}"
            )
        except ValueError:
            pass
    if recorded is not None and recorded.module_path:
        text += f"; in module {recorded.module_path!r}"
    if recorded is not None and recorded.source:
        text += f", at {recorded.source}"
    if recorded is not None and recorded.kernel:
        text += f"; {recorded.kernel} got {', '.join(recorded.operands) or 'no tensors'}"
    if type(error).__name__ in VALUE_ERRORS:
        line = user_line(error)
        return (
            f"{where} looks at values of tensors{f' at {line}' if line else ''}, which fake tensors do not have "
            f"({type(error).__name__}). Record it with real tensors: leave out fake=True"
        )
    devices = _devices(model, args, kwargs)
    if len(devices) > 1 and isinstance(error, (RuntimeError, NotImplementedError)):
        parameter_device, input_device = devices
        if parameter_device != input_device:
            text += (
                f". The model is on {parameter_device}, its inputs are on {input_device}: "
                f"move one of them, e.g. inputs.to({parameter_device!r})"
            )
    return text


def _devices(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    from tb_plugin_structure.capture.nested import named_arguments

    parameter = next(model.parameters(), None)
    given = named_arguments(args, kwargs)
    if parameter is None or not given:
        return ()
    for _, tensor in given:
        if tensor.device != parameter.device:
            return str(parameter.device), str(tensor.device)
    return ()
