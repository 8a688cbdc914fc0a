"""The dispatch mode: a few microseconds for every kernel, and nothing that could wait.

No argument and no result is replaced. Whatever is not needed to know later what happened is left for
:mod:`assembly`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure.capture.call_sites import TORCH_ROOT, Site
from tb_plugin_structure.capture.higher_order import HigherOrderMode
from tb_plugin_structure.capture.kernels import FRESH, VIEW, KernelFacts, facts_of
from tb_plugin_structure.capture.nested import named_tensors

if TYPE_CHECKING:
    from tb_plugin_structure.capture.events import Kernel
    from tb_plugin_structure.capture.observer import Observer

OUTSIDE = -1
"""Owner of what runs in no call of an observed model."""

MAXIMUM_FRAMES = 12
"""Python frames between a kernel and the module call around it that tell call sites apart."""

_in_backward = torch._C._current_graph_task_id
_sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]

_MARKS: list[Any] = [{"t": k} for k in range(256)]
"""Stand for the k-th tensor argument in recorded arguments."""

_CALLS_FORWARD: CodeType = torch.nn.Module._call_impl.__code__
_CALLS_HOOKED: CodeType = next(
    (code for code in _CALLS_FORWARD.co_consts if isinstance(code, CodeType) and code.co_name == "inner"),
    _CALLS_FORWARD,
)
"""What calls a module's forward: the frame around a module call, without hooks and with them."""

_PLUMBING_FILES = (
    "torch/_ops.py",
    "torch/_compile.py",
    "torch/utils/_python_dispatch.py",
    "torch/overrides.py",
    "torch/_library/",
    "torch/_dynamo/",
    "torch/utils/_contextlib.py",
    "torch/utils/_device.py",
    "torch/autograd/function.py",
    "torch/_tensor.py",
    "torch/_jit_internal.py",
    "torch/utils/_stats.py",
)

Plan = tuple[KernelFacts, Callable[..., Any] | None, tuple[int, ...] | None, int, bool]
"""What `dispatch` needs to know of an overload: its facts; what to run, None when it is not recorded; where tensors may
be; kind of its results' memory; whether it writes its first argument alone."""

_idle: list[Any] = []
"""Classes of modes that nobody has entered."""

_plans: dict[int, Plan] = {}
"""id of an overload -> its plan, whose facts hold the overload."""


def recording_mode(observer: Observer) -> TorchDispatchMode:
    """A mode that appends to `observer` while it is entered.

    torch asks the class for the handler and not the mode, so each mode that is entered has a class of its own. The
    handler is set on the class afterwards and not written in its body: torch wraps what it finds there to keep its
    compiler out, at two microseconds a kernel. The region runs eagerly, so there is no compiler to keep out.
    """
    try:
        kind = _idle.pop()
    except IndexError:
        kind = type("RecordingMode", (HigherOrderMode,), {})
    kind.__torch_dispatch__ = _dispatcher(observer)
    mode: TorchDispatchMode = kind()
    return mode


def retire(mode: Any) -> None:
    """After a mode was left for good: its class is used again and holds nothing of what was recorded. A class that is
    thrown away would, until the next search for reference cycles."""
    kind = type(mode)
    if "__torch_dispatch__" in vars(kind):
        kind.__torch_dispatch__ = HigherOrderMode.__torch_dispatch__
        _idle.append(kind)


@lru_cache(maxsize=4096)
def _is_plumbing(filename: str) -> bool:
    name = filename.replace("\\", "/")
    return name == __file__.replace("\\", "/") or any(part in name for part in _PLUMBING_FILES)


_torchs: dict[int, bool] = {}
"""id of a code object -> whether it is torch's."""
_asked: list[CodeType] = []
"""The code objects in `_torchs`, kept alive so that none is taken for another."""


def _is_torchs(code: CodeType) -> bool:
    known = _torchs.get(id(code))
    if known is None:
        _asked.append(code)
        known = _torchs[id(code)] = code.co_filename.startswith(TORCH_ROOT)
    return known


def _users_frame(frame: Any) -> tuple[Any, ...]:
    """The innermost frame around `frame` that is not torch's, as the dispatcher records frames."""
    known = _torchs.get
    while (frame := frame.f_back) is not None:
        code = frame.f_code
        torchs = known(id(code))
        if torchs is None:
            torchs = _is_torchs(code)
        if not torchs:
            return (id(frame), code, frame.f_lasti)
    return ()


def _plan_of(func: Any) -> Plan:
    facts = facts_of(func)
    positions = facts.tensor_positions
    if positions is not None and len(positions) > len(_MARKS):
        positions = None
    run = None if facts.skipped else facts.run
    plan = _plans[id(func)] = (
        facts,
        run,
        positions,
        facts.memory,
        facts.written_positions == (0,) and facts.packet != "aten::set_",
    )
    return plan


def call_sites(kernels: Sequence[Kernel], borders: Collection[int]) -> tuple[list[Site], list[int], list[int]]:
    """What the recorded frames say: all call sites, and for each kernel the number of its site and of its group.

    Kernels in a row are one group when they come from one frame and instruction. As frame addresses are used again, a
    module call that begins or ends between two kernels separates them: `borders` are the kernels before which one does.
    """
    known: dict[tuple[int, ...], tuple[int, int]] = {}
    numbers: dict[tuple[int, ...], int] = {}
    written: dict[int, bool] = {}
    found: list[Site] = []
    sites: list[int] = []
    groups: list[int] = []
    last_frame = last_site = group = -1
    for position, kernel in enumerate(kernels):
        frames = kernel[2]
        place = (*map(id, frames[1::3]), *frames[2::3])
        seen = known.get(place)
        if seen is None:
            key: tuple[int, ...] = ()
            chosen: list[tuple[CodeType, int]] = []
            first = -1
            for at in range(0, len(frames), 3):
                code = frames[at + 1]
                is_written = written.get(id(code))
                if is_written is None:
                    is_written = written[id(code)] = not _is_plumbing(code.co_filename)
                if is_written and len(chosen) < MAXIMUM_FRAMES:
                    first = at if first < 0 else first
                    key += (id(code), frames[at + 2])
                    chosen.append((code, frames[at + 2]))
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(found)
                found.append(tuple(chosen))
            seen = known[place] = number, first
        site, first = seen
        innermost = frames[first] if first >= 0 else 0
        if innermost != last_frame or site != last_site or position in borders:
            group += 1
            last_frame, last_site = innermost, site
        sites.append(site)
        groups.append(group)
    return found, sites, groups


def _outlined(value: Any, inputs: list[Tensor]) -> Any:
    """An argument with its tensors replaced by marks; the tensors are appended to `inputs`."""
    if isinstance(value, Tensor):
        inputs.append(value)
        position = len(inputs) - 1
        return _MARKS[position] if position < len(_MARKS) else {"t": position}
    if isinstance(value, (list, tuple)):
        return [_outlined(item, inputs) for item in value]
    if isinstance(value, dict):
        return {str(key): _outlined(item, inputs) for key, item in value.items()}
    return value


def _tensors_in(args: Any, kwargs: Any) -> list[Tensor]:
    """The tensor arguments in the order of their marks."""
    found: list[Tensor] = []
    _outlined((args, kwargs or {}), found)
    return found


def _dispatcher(observer: Observer) -> Callable[..., Any]:
    """The function that runs for every kernel, with everything it needs in its closure.

    Most kernels have tensors among their positional arguments and return one tensor: `dispatch` does these itself. What
    is rarer is left to the functions before it, and what can be found out later to :mod:`assembly`.
    """
    values, stack = observer.values, observer.stack
    references, producers, storages = values.references, values.producers, values.storages
    requires_grad, writes = values.requires_grad, values.writes
    add_value, made_by_custom_function = values.add, values.made_by_custom_function
    kernels, kernel_outputs, also_reads = observer.kernels, observer.kernel_outputs, observer.also_reads
    listeners = tuple(observer.listeners)
    marks, most_entries = _MARKS, 3 * 2 * MAXIMUM_FRAMES
    known_reference, known_plan = references.get, _plans.get
    get_frame, sequence_number, grad_enabled = sys._getframe, _sequence_number, torch.is_grad_enabled
    calls_forward, calls_hooked = _CALLS_FORWARD, _CALLS_HOOKED
    append_kernel, append_outputs = kernels.append, kernel_outputs.append
    is_torchs, users_frame = _is_torchs, _users_frame
    thread = threading.get_ident()

    def elsewhere() -> bool:
        """Whether a thread without Python frames runs beside the one that is observed (what TorchScript forks).

        One of autograd's own threads, which run what is on another device, does not: the observed one waits for it.
        """
        return threading.get_ident() != thread and _in_backward() == -1

    def unknown(tensor: Tensor, facts: KernelFacts) -> int:
        return values.constant(tensor) if facts.takes_constant else values.unknown(tensor)

    def reached(row: int, tensor: Tensor) -> None:
        """A value that requires a gradient is read for the first time: only now autograd says how it was made.

        Asking makes a Python object of the node, so it is asked only where a custom ``autograd.Function`` can have made
        the value: its kernels run without gradients, or it ran none.
        """
        requires_grad[row] = 1
        kernel = producers[row]
        if (kernel < 0 or not kernels[kernel][7]) and isinstance(tensor.grad_fn, BackwardCFunction):
            made_by_custom_function(row, tensor.grad_fn)

    def record_outputs(result: Any, kernel: int, args: Any, kwargs: Any, rows: Sequence[int], memory: int) -> None:
        """The general case: several results, results that are arguments, higher-order operators."""
        if memory == FRESH and type(result) is tuple and all(isinstance(item, Tensor) for item in result):
            kernel_outputs[kernel] = tuple([add_value(tensor, kernel, -1) for tensor in result])
            return
        inputs = _tensors_in(args, kwargs)
        made: list[int] = []
        for _, tensor in named_tensors(result):
            row = -1
            for position, argument in enumerate(inputs):
                if argument is tensor:
                    row = references[id(tensor)].row if id(tensor) in references else rows[position]
                    break
            if row < 0:
                storage = -1
                if memory == VIEW and rows:
                    storage = storages[rows[0]]
                elif memory != FRESH:
                    storage = values.storage_of_result(tensor, rows)
                row = add_value(tensor, kernel, storage)
            made.append(row)
        kernel_outputs[kernel] = tuple(dict.fromkeys((*made, *kernel_outputs[kernel])))

    def record_write(tensor: Tensor, before: int, kernel: int) -> int:
        row = add_value(tensor, kernel, storages[before])
        values.previous[row] = before
        if tensor.requires_grad:
            requires_grad[row] = 1
        values.wrote(row)
        return row

    def record_exchange(tensor: Tensor, kernel: int) -> int:
        """``tensor.set_(other)``: no memory was written, the tensor lies in that of another now."""
        there = values.in_same_storage(tensor)
        row = add_value(tensor, kernel, storages[there] if there >= 0 else -1)
        if there >= 0:
            read = {there, *values.through_storage(there), *also_reads.get(kernel, ())} - {row}
            also_reads[kernel] = sorted(read.difference(kernels[kernel][3]))
        return row

    def record_writes(args: Any, kwargs: Any, kernel: int, facts: KernelFacts) -> None:
        written = [args[position] for position in facts.written_positions if position < len(args)]
        if kwargs:
            written += [kwargs[name] for name in facts.written_names if name in kwargs]
        made: list[int] = []
        for value in written:
            for tensor in (value,) if isinstance(value, Tensor) else [found for _, found in named_tensors(value)]:
                if facts.packet == "aten::set_":
                    made.append(record_exchange(tensor, kernel))
                else:
                    made.append(record_write(tensor, values.row(tensor), kernel))
        kernel_outputs[kernel] = tuple(made)

    def gave_up(error: Exception) -> None:
        if len(kernel_outputs) < len(kernels):
            append_outputs(())
        observer.give_up(error)

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if observer.paused or (not stack and not observer.outside_is_recorded(func, args)):
            return func(*args, **kwargs) if kwargs else func(*args)
        frame: Any = None
        try:
            frame = get_frame(1)
        except ValueError:  # no Python runs below this
            if elsewhere():
                return func(*args, **kwargs) if kwargs else func(*args)
        try:
            facts, run, positions, memory, writes_first = known_plan(id(func)) or _plan_of(func)
            if run is None:
                return func(*args, **kwargs) if kwargs else func(*args)
            rows: tuple[int, ...] = ()
            named: Any = None
            if positions is None or (kwargs and positions):
                inputs: list[Tensor] = []
                template = [_outlined(value, inputs) for value in args]
                if kwargs:
                    named = {key: _outlined(value, inputs) for key, value in kwargs.items()}
                found: list[int] = []
                for tensor in inputs:
                    reference = known_reference(id(tensor))
                    row = reference.row if reference is not None and reference() is tensor else unknown(tensor, facts)
                    if tensor.requires_grad and not requires_grad[row]:
                        reached(row, tensor)
                    found.append(row)
                rows = tuple(found)
            else:  # the same without lists in between
                template = [*args]
                if kwargs:
                    named = dict(kwargs)
                count = len(template)
                for position in positions:
                    if position >= count:
                        break
                    tensor = args[position]
                    if isinstance(tensor, Tensor):
                        template[position] = marks[len(rows)]
                        reference = known_reference(id(tensor))
                        row = (
                            reference.row if reference is not None and reference() is tensor else unknown(tensor, facts)
                        )
                        if tensor.requires_grad and not requires_grad[row]:
                            reached(row, tensor)
                        rows += (row,)
            kernel = len(kernels)
            if writes:
                also = [other for row in rows if storages[row] in writes for other in values.through_storage(row)]
                if also:
                    also_reads[kernel] = sorted(set(also).difference(rows))

            # Where it was written: frames up to the module call around it, innermost first.
            frames: tuple[Any, ...] = ()
            while frame is not None:
                code = frame.f_code
                if code is calls_hooked or code is calls_forward or len(frames) >= most_entries:
                    if frames and is_torchs(frames[-2]):
                        frames += users_frame(frame)  # a layer of torch: who called it says more than its own line
                    break
                frames += (id(frame), code, frame.f_lasti)
                frame = frame.f_back
            frame = None
            call = stack[-1] if stack else OUTSIDE
            # Tuples of plain values, and no lists: the search for reference cycles lets go of them when it sees them.
            entry: Any = (facts, call, frames, rows, tuple(template), named, sequence_number(), grad_enabled())
            append_kernel(entry)
            if listeners:
                for listener in listeners:
                    listener.before_kernel(func, args, kwargs or {}, observer.context())
        except Exception as error:
            gave_up(error)
            return func(*args, **kwargs) if kwargs else func(*args)

        try:
            result = run(*args, **kwargs) if kwargs else run(*args)
        except BaseException as error:
            append_outputs(())
            observer.kernel_failed(error, facts.name, _tensors_in(args, kwargs))
            raise
        try:
            if not isinstance(result, Tensor):
                append_outputs(())
                if facts.written_positions:
                    record_writes(args, kwargs, kernel, facts)
                if result is not None:
                    record_outputs(result, kernel, args, kwargs, rows, memory)
            elif facts.written_positions:
                if writes_first and result is args[0]:
                    append_outputs((record_write(result, rows[0], kernel),))
                else:
                    append_outputs(())
                    record_writes(args, kwargs, kernel, facts)
                    if result is not next(iter(_tensors_in(args, kwargs)), None):
                        record_outputs(result, kernel, args, kwargs, rows, memory)
            elif memory == FRESH:
                append_outputs((add_value(result, kernel, -1),))
            else:
                reference = known_reference(id(result))
                if memory == VIEW and rows and (reference is None or reference() is not result):
                    append_outputs((add_value(result, kernel, storages[rows[0]]),))
                else:
                    append_outputs(())
                    record_outputs(result, kernel, args, kwargs, rows, memory)
            if listeners:
                for listener in listeners:
                    listener.after_kernel(func, args, kwargs or {}, result, observer.context())
        except Exception as error:
            gave_up(error)
        return result

    def dispatch_looking_again(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Where tensors may be given other memory, which no kernel shows."""
        for tensor in _tensors_in(args, kwargs):
            values.look_again(tensor)
        return dispatch(self, func, types, args, kwargs)

    return dispatch_looking_again if observer.exchanges_memory else dispatch
