"""The dispatch mode: a few microseconds for every kernel, and nothing that could wait.

No argument and no result is replaced. Whatever is not needed to know later what happened is left for
:mod:`assembly`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure.capture.higher_order import HigherOrderMode
from tb_plugin_structure.capture.kernels import FRESH, VIEW, KernelFacts, facts_of
from tb_plugin_structure.capture.nested import named_tensors

if TYPE_CHECKING:
    from tb_plugin_structure.capture.observer import Observer

OUTSIDE = -1
"""Owner of what runs in no call of an observed model."""

MAXIMUM_FRAMES = 12
"""Python frames between a kernel and the module call around it that tell call sites apart."""

_in_backward = torch._C._current_graph_task_id
_sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]

_MARKS: list[Any] = [{"t": k} for k in range(256)]
"""Stand for the k-th tensor argument in recorded arguments."""

_CODE, _PLUMBING, _BOUNDARY = range(3)
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

_kinds: dict[int, tuple[int, CodeType]] = {}
"""id of a code object -> (its kind, the object, which keeps the id valid)."""

_facts: dict[int, KernelFacts] = {}
"""id of an overload -> its facts, which hold the overload."""


def recording_mode(observer: Observer) -> TorchDispatchMode:
    """A mode that appends to `observer` while it is entered.

    The handler is set on the class afterwards and not written in its body: torch wraps what it finds there to keep its
    compiler out, at two microseconds a kernel. The region runs eagerly, so there is no compiler to keep out.
    """

    class RecordingMode(HigherOrderMode):
        pass

    RecordingMode.__torch_dispatch__ = _dispatcher(observer)  # type: ignore[assignment]
    return RecordingMode()  # type: ignore[no-untyped-call]


def _kind_of(code: CodeType) -> int:
    name = code.co_filename.replace("\\", "/")
    if name.endswith("torch/nn/modules/module.py") and code.co_name in ("_call_impl", "inner", "_wrapped_call_impl"):
        return _BOUNDARY
    if name == __file__.replace("\\", "/") or any(part in name for part in _PLUMBING_FILES):
        return _PLUMBING
    return _CODE


def _dispatcher(observer: Observer) -> Callable[..., Any]:
    """The function that runs for every kernel, with everything it needs in its closure."""
    values, stack = observer.values, observer.stack
    references, storages, requires_grad, writes = (
        values.references,
        values.storages,
        values.requires_grad,
        values.writes,
    )
    add_value, made_by_custom_function = values.add, values.made_by_custom_function
    kernels, kernel_outputs = observer.kernels, observer.kernel_outputs
    also_reads, sites = observer.also_reads, observer.sites
    listeners = tuple(observer.listeners)
    site_numbers: dict[tuple[int, ...], int] = {}
    kinds, marks, all_facts = _kinds, _MARKS, _facts
    get_frame = sys._getframe
    append_kernel, append_outputs = kernels.append, kernel_outputs.append
    # The last call site; a module call that begins or ends resets it, as frame addresses are used again.
    last_frame = last_site = group = -1

    def new_group() -> None:
        nonlocal last_frame
        last_frame = -1

    observer.new_group = new_group

    def unknown(tensor: Tensor, facts: KernelFacts) -> int:
        return values.constant(tensor) if facts.takes_constant else values._unknown(tensor)

    def outlined(value: Any, inputs: list[Tensor]) -> Any:
        """An argument with its tensors replaced by marks; the tensors are appended to `inputs`."""
        if isinstance(value, Tensor):
            inputs.append(value)
            position = len(inputs) - 1
            return marks[position] if position < len(marks) else {"t": position}
        if isinstance(value, (list, tuple)):
            return [outlined(item, inputs) for item in value]
        if isinstance(value, dict):
            return {str(key): outlined(item, inputs) for key, item in value.items()}
        return value

    def record_outputs(result: Any, kernel: int, inputs: list[Tensor], rows: Sequence[int], facts: KernelFacts) -> None:
        """The general case: several results, results that are arguments, higher-order operators."""
        if facts.memory == FRESH and type(result) is tuple and all(isinstance(item, Tensor) for item in result):
            kernel_outputs[kernel] = tuple([add_value(tensor, kernel, -1) for tensor in result])
            return
        made: list[int] = []
        for _, tensor in named_tensors(result):
            row = -1
            for position, argument in enumerate(inputs):
                if argument is tensor:
                    row = references[id(tensor)].row if id(tensor) in references else rows[position]
                    break
            if row < 0:
                storage = -1
                if facts.memory == VIEW and rows:
                    storage = storages[rows[0]]
                elif facts.memory != FRESH:
                    storage = values.storage_of_result(tensor, rows)
                row = add_value(tensor, kernel, storage)
            made.append(row)
        kernel_outputs[kernel] = tuple(dict.fromkeys((*made, *kernel_outputs[kernel])))

    def record_writes(args: Any, kwargs: Any, kernel: int, facts: KernelFacts) -> None:
        written = [args[position] for position in facts.written_positions if position < len(args)]
        if kwargs:
            written += [kwargs[name] for name in facts.written_names if name in kwargs]
        made: list[int] = []
        for value in written:
            for tensor in (value,) if isinstance(value, Tensor) else [found for _, found in named_tensors(value)]:
                before = values.row(tensor)
                row = add_value(tensor, kernel, storages[before])
                values.previous[row] = before
                if tensor.requires_grad:
                    requires_grad[row] = 1
                values.wrote(row)
                made.append(row)
        kernel_outputs[kernel] = tuple(made)

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        nonlocal last_frame, last_site, group
        if observer.paused or (not stack and not observer.outside_is_recorded()):
            return func(*args, **kwargs) if kwargs else func(*args)
        try:
            facts = all_facts.get(id(func))
            if facts is None:
                facts = all_facts[id(func)] = facts_of(func)
            if facts.skipped:
                return func(*args, **kwargs) if kwargs else func(*args)

            inputs: list[Tensor] = []
            positions = facts.tensor_positions
            if positions is not None:
                template = list(args)
                count = len(template)
                for position in positions:
                    if position < count:
                        value = args[position]
                        if isinstance(value, Tensor):
                            template[position] = marks[len(inputs)]
                            inputs.append(value)
            else:
                template = [outlined(value, inputs) for value in args]
            named = {key: outlined(value, inputs) for key, value in kwargs.items()} if kwargs else None
            kernel = len(kernels)
            rows: list[int] = []
            for tensor in inputs:
                reference = references.get(id(tensor))
                row = reference.row if reference is not None and reference() is tensor else unknown(tensor, facts)
                if not requires_grad[row] and tensor.requires_grad:
                    requires_grad[row] = 1
                    if isinstance(tensor.grad_fn, BackwardCFunction):
                        made_by_custom_function(row, tensor.grad_fn)
                rows.append(row)
            if writes:
                also = [other for row in rows if storages[row] in writes for other in values.through_storage(row)]
                if also:
                    also_reads[kernel] = sorted(set(also).difference(rows))

            # Where it was written: frames up to the module call around it, innermost first.
            frame: Any = get_frame(1)
            key: tuple[int, ...] = ()
            frame_id = 0
            while frame is not None and len(key) < 2 * MAXIMUM_FRAMES:
                code = frame.f_code
                kind = kinds.get(id(code))
                if kind is None:
                    kind = kinds[id(code)] = (_kind_of(code), code)
                if kind[0] == _CODE:
                    key += (id(code), frame.f_lasti)
                    frame_id = frame_id or id(frame)
                elif kind[0] == _BOUNDARY:
                    break
                frame = frame.f_back
            frame = None
            site = site_numbers.get(key, -1)
            if site < 0:
                site = site_numbers[key] = len(sites)
                sites.append(tuple((kinds[key[at]][1], key[at + 1]) for at in range(0, len(key), 2)))
            if frame_id != last_frame or site != last_site:
                group += 1
                last_frame, last_site = frame_id, site

            call = stack[-1] if stack else OUTSIDE
            append_kernel((facts, call, site, group, rows, template, named, _sequence_number()))  # type: ignore[arg-type]
            append_outputs(())

            if listeners:
                for listener in listeners:
                    listener.before_kernel(func, args, kwargs or {}, observer.context())
        except Exception as error:
            observer.give_up(error)
            return func(*args, **kwargs) if kwargs else func(*args)

        try:
            result = facts.run(*args, **kwargs) if kwargs else facts.run(*args)
        except BaseException as error:
            observer.kernel_failed(error, facts.name, inputs)
            raise
        try:
            memory = facts.memory
            if facts.written_positions:
                record_writes(args, kwargs, kernel, facts)
                if not (isinstance(result, Tensor) and result is inputs[0]):
                    record_outputs(result, kernel, inputs, rows, facts)
            elif isinstance(result, Tensor):
                if memory == FRESH:
                    kernel_outputs[kernel] = (add_value(result, kernel, -1),)
                elif memory == VIEW and inputs and result is not inputs[0]:
                    kernel_outputs[kernel] = (add_value(result, kernel, storages[rows[0]]),)
                else:
                    record_outputs(result, kernel, inputs, rows, facts)
            elif result is not None:
                record_outputs(result, kernel, inputs, rows, facts)
            if listeners:
                for listener in listeners:
                    listener.after_kernel(func, args, kwargs or {}, result, observer.context())
        except Exception as error:
            observer.give_up(error)
        return result

    return dispatch
