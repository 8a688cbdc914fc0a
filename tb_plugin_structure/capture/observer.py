"""Watches a region of the user's code: module hooks and one dispatch mode, appending to flat lists.

Everything that can wait is done afterwards (:mod:`assembly`, :mod:`call_sites`): this file is the hot path, a few
microseconds a kernel. Nothing is patched, no argument or result is replaced, and other threads are not touched.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure.capture import provenance
from tb_plugin_structure.capture.kernels import VIEW, KernelFacts, facts_of
from tb_plugin_structure.capture.modules import ModuleTable
from tb_plugin_structure.capture.nested import named_arguments, named_tensors
from tb_plugin_structure.capture.values import BUFFER, EXTERNAL, INPUT, PARAMETER, Source, Values

OUTSIDE = -1
"""Owner of what runs in no call of an observed model."""

MAXIMUM_FRAMES = 12
"""Python frames between a kernel and the module call around it that tell call sites apart."""

_in_backward = torch._C._current_graph_task_id
_sequence_number = torch.autograd._get_sequence_nr
_get_ident = threading.get_ident

TENSOR_MARKS = [{"t": k} for k in range(4096)]
"""Stand for the k-th tensor argument in recorded arguments."""


class KernelContext:
    """What a listener learns about the module call around a kernel."""

    __slots__ = ("model", "module", "module_path", "ordinal")

    def __init__(self, model: str, module_path: str, ordinal: int, module: nn.Module | None) -> None:
        self.model = model
        self.module_path = module_path
        self.ordinal = ordinal
        self.module = module


class ModuleCall:
    """One call of a module while and after it runs."""

    __slots__ = (
        "begin",
        "context",
        "end",
        "inputs",
        "model",
        "module",
        "ordinal",
        "ordinals",
        "outputs",
        "parent",
        "raised",
    )

    def __init__(self, model: int, module: int, parent: int, ordinal: int, begin: int) -> None:
        self.model = model
        self.module = module
        self.parent = parent
        self.ordinal = ordinal
        self.begin = begin
        self.end = -1
        self.inputs: list[tuple[str, int]] = []
        self.outputs: list[tuple[str, int]] = []
        self.raised = False
        self.context: KernelContext | None = None
        self.ordinals: dict[tuple[int, int], int] = {}


_NO_CALL = KernelContext("", "", 0, None)


class Failure:
    """The first exception that left a kernel or a module call."""

    def __init__(self, error: BaseException, call: int) -> None:
        self.error = error
        self.call = call
        self.kernel = ""
        self.operands: list[str] = []


class ObservedModel:
    """A model under its name in the region."""

    def __init__(self, name: str, model: nn.Module) -> None:
        self.name = name
        self.table = ModuleTable(model)
        self.training = self.table.model.training
        self.grad_mode = ""
        self.autocast = ""
        self.calls: dict[int, int] = {}
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.parameters: list[tuple[str, Tensor, int, bool]] = []
        self.error: Failure | None = None


class Observer:
    """Records into flat lists, one entry a kernel."""

    def __init__(self, models: Sequence[ObservedModel], listeners: Sequence[Any] = ()) -> None:
        self.models = list(models)
        self.listeners = list(listeners)
        self.values = Values()
        self.calls: list[ModuleCall] = []
        self.stack: list[int] = []
        self.kernel_funcs: list[Any] = []
        self.kernel_calls: list[int] = []
        self.kernel_sites: list[int] = []
        self.kernel_groups: list[int] = []
        self.kernel_inputs: list[tuple[int, ...]] = []
        self.kernel_outputs: list[tuple[int, ...]] = []
        self.kernel_arguments: list[Any] = []
        self.kernel_sequence: list[int] = []
        self.also_reads: dict[int, list[int]] = {}
        self.sites: list[tuple[tuple[CodeType, int], ...]] = []
        self.failures: list[Failure] = []
        self.had_backward = False
        self.paused = 0
        self._owner_of: dict[int, tuple[int, int]] = {}
        self._foreign: dict[int, Any] = {}
        self._handles: list[Any] = []
        self._mode: _Mode | None = None
        self._thread = 0
        self._new_group: Callable[[], None] = lambda: None
        for index, model in enumerate(self.models):
            self._register(index, model)

    def _register(self, index: int, model: ObservedModel) -> None:
        for row, entry in enumerate(model.table.entries):
            module = entry.module()
            if module is not None and (row == 0 or id(module) not in self._owner_of):
                self._owner_of[id(module)] = (index, row)
        for path, tensor, _, is_buffer in model.table.tensors():
            self.values.register(tensor, Source(BUFFER if is_buffer else PARAMETER, model.name, path))

    def expect(self, index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Say beforehand what a model will be called with, so that a pass that raises knows its inputs too."""
        model = self.models[index]
        model.arguments = (_outline(args), _outline(kwargs))
        for name, tensor in named_arguments(args, kwargs):
            self.values.register(tensor, Source(INPUT, model.name, name))

    # ---- start and stop

    def start(self) -> None:
        """Register hooks and enter the mode; undone by :meth:`stop`, also when this fails half-way."""
        self._thread = _get_ident()
        try:
            self._handles.append(register_module_forward_pre_hook(self._before_module))
            self._handles.append(register_module_forward_hook(self._after_module, with_kwargs=True, always_call=True))
            self._handles += _optimizer_hooks(self)
            mode = _Mode(self)
            mode.__enter__()
            self._mode = mode
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Leave the mode and remove every hook."""
        mode, self._mode = self._mode, None
        try:
            if mode is not None:
                mode.__exit__(None, None, None)
        finally:
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            for call in self.calls:
                if call.end < 0:
                    call.end = len(self.kernel_funcs)

    # ---- module calls

    def _before_module(self, module: nn.Module, args: Any) -> None:
        if _get_ident() != self._thread:
            return
        owner = self._owner_of.get(id(module)) or self._find(module)
        if owner is None or (not self.stack and _in_backward() != -1):
            return
        self._enter(owner, module, args)

    def _enter(self, owner: tuple[int, int], module: nn.Module, args: Any) -> None:
        index, row = owner
        stack = self.stack
        parent = -1
        for call in reversed(stack):
            if self.calls[call].model == index:
                parent = call
                break
        model = self.models[index]
        if parent < 0:
            if row != 0:
                # A part is called without the model around it, e.g. model.encode(x): the model's own call is implied.
                self._enter((index, 0), model.table.model, ())
                parent = stack[-1]
            else:
                model.grad_mode = model.grad_mode or provenance.grad_mode()
                if not model.autocast:
                    model.autocast = provenance.autocast_dtype(("cpu", "cuda"))
                model.training = module.training
        call = len(self.calls)
        ordinals = self.calls[parent].ordinals if parent >= 0 else model.calls
        ordinal = ordinals.get(row, 0)  # type: ignore[call-overload]
        ordinals[row] = ordinal + 1  # type: ignore[index]
        entry = ModuleCall(index, row, parent, ordinal, len(self.kernel_funcs))
        self.calls.append(entry)
        stack.append(call)
        self._new_group()
        if args:
            if parent < 0:
                entry.inputs = [
                    (name, self._current(tensor, Source(INPUT, model.name, name)))
                    for name, tensor in named_arguments(args, {})
                ]
            else:
                entry.inputs = [(name, self._current(tensor)) for name, tensor in named_arguments(args, {})]

    def _find(self, module: nn.Module) -> tuple[int, int] | None:
        """Modules that were added to a model after the region began; others are not ours and are remembered."""
        key = id(module)
        known = self._foreign.get(key)
        if known is not None and known() is module:
            return None
        for index, model in enumerate(self.models):
            if model.table.refresh():
                self._register(index, model)
        found = self._owner_of.get(key)
        if found is None:
            import weakref

            self._foreign[key] = weakref.ref(module)
        return found

    def _after_module(self, module: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        # When the forward raised, torch calls with (module, args, None): without the keyword arguments.
        if not self.stack or _get_ident() != self._thread:
            return
        owner = self._owner_of.get(id(module))
        if owner is None:
            return
        stack, calls = self.stack, self.calls
        for position in range(len(stack) - 1, -1, -1):
            top = calls[stack[position]]
            if (top.model, top.module) == owner:
                break
        else:
            return
        for call in stack[position:]:
            calls[call].end = len(self.kernel_funcs)
        del stack[position:]
        self._new_group()
        values = self.values
        if kwargs:
            source_name = self.models[owner[0]].name if top.parent < 0 else ""
            for name, tensor in named_arguments((), kwargs):
                top.inputs.append((name, self._row_at_entry(tensor, top, source_name, name)))
        if top.parent < 0 and owner[1] == 0 and self.models[owner[0]].arguments is None:
            self.models[owner[0]].arguments = (_outline(args), _outline(kwargs or {}))
        if output is None:
            error = sys.exc_info()[1]
            if error is not None:
                top.raised = True
                self._failed(error, position)
                return
        for name, tensor in named_tensors(output):
            row = self._current(tensor)
            if tensor.requires_grad:
                values.requires_grad[row] = 1
            top.outputs.append((name, row))

    def _current(self, tensor: Tensor, source: Source | None = None) -> int:
        """The value a tensor holds now, writes through other views of its memory included.

        Such a write makes a new value of this tensor too: it is added to the results of the kernel that wrote last,
        which is said to read what it left standing.
        """
        values = self.values
        row = values.external(tensor, source) if source is not None else values.row(tensor)
        if values.storages[row] not in values.writes:
            return row
        later = values.through_storage(row)
        if not later:
            return row
        kernel = values.producers[later[-1]]
        current = values.add(tensor, kernel, values.storages[row])
        values.previous[current] = row
        values.requires_grad[current] = values.requires_grad[row]
        self.kernel_outputs[kernel] += (current,)
        left_standing = {row, *later[:-1], *self.also_reads.get(kernel, ())}
        self.also_reads[kernel] = sorted(left_standing.difference(self.kernel_inputs[kernel]))
        return current

    def _row_at_entry(self, tensor: Tensor, call: ModuleCall, model: str, name: str) -> int:
        """The value that a keyword argument had when the call began (it may have been written since)."""
        values = self.values
        row = values.external(tensor, Source(INPUT, model, name)) if model else values.row(tensor)
        while values.producers[row] >= call.begin and row in values.previous:
            row = values.previous[row]
        source = values.sources.get(row)
        if model and source is not None and source.origin > BUFFER and source.origin != EXTERNAL:
            values.sources[row] = Source(INPUT, model, name)
        return row

    def _failed(self, error: BaseException, call: int) -> None:
        if not any(failure.error is error for failure in self.failures):
            self.failures.append(Failure(error, call))

    def context(self) -> KernelContext:
        """The innermost module call, for listeners."""
        if not self.stack:
            return _NO_CALL
        number = self.stack[-1]
        call = self.calls[number]
        if call.context is None:
            model = self.models[call.model]
            entry = model.table.entries[call.module]
            ordinal = sum((other.model, other.module) == (call.model, call.module) for other in self.calls[:number])
            call.context = KernelContext(model.name, entry.path, ordinal, entry.module())
        return call.context


def _outline(value: Any) -> Any:
    """Arguments as short texts; tensors are not kept."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, dict):
        return {str(key): _outline(item) for key, item in list(value.items())[:64]}
    if isinstance(value, (list, tuple)):
        return [_outline(item) for item in value[:64]]
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return repr(value[:80])
    return type(value).__name__


def _optimizer_hooks(observer: Observer) -> list[Any]:
    """An optimizer's own kernels are not part of any model: recording pauses while it steps."""
    from torch.optim import optimizer as module

    def before(*_: Any) -> None:
        if _get_ident() == observer._thread:
            observer.paused += 1

    def after(*_: Any) -> None:
        if _get_ident() == observer._thread and observer.paused:
            observer.paused -= 1

    return [module.register_optimizer_step_pre_hook(before), module.register_optimizer_step_post_hook(after)]


# ---- the dispatch mode


class _Mode(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self.dispatch = _dispatcher(observer)


def _torch_dispatch(self: _Mode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    return self.dispatch(func, args, kwargs)


# Set here and not in the class body: torch wraps what it finds there to keep its compiler out, at 2 microseconds a
# kernel. The region runs eagerly, so there is no compiler to keep out.
_Mode.__torch_dispatch__ = _torch_dispatch  # type: ignore[method-assign]

_KIND_CODE, _KIND_PLUMBING, _KIND_BOUNDARY = range(3)
_PLUMBING = (
    "torch/_ops.py",
    "torch/_compile.py",
    "torch/utils/_python_dispatch.py",
    "torch/overrides.py",
    "torch/_library/",
    "torch/_dynamo/",
    "torch/utils/_contextlib.py",
    "torch/autograd/function.py",
    "torch/_tensor.py",
    "torch/_jit_internal.py",
    "torch/utils/_stats.py",
)


def _kind_of(code: CodeType) -> int:
    name = code.co_filename.replace("\\", "/")
    if name.endswith("torch/nn/modules/module.py") and code.co_name in ("_call_impl", "inner", "_wrapped_call_impl"):
        return _KIND_BOUNDARY
    if name == __file__.replace("\\", "/") or any(part in name for part in _PLUMBING):
        return _KIND_PLUMBING
    return _KIND_CODE


_kinds: dict[int, tuple[CodeType, int]] = {}
"""id of a code object -> (the object, which keeps the id valid; its kind)."""


def _dispatcher(observer: Observer) -> Callable[[Any, Any, Any], Any]:
    """The function that runs for every kernel, with everything it needs in its closure."""
    values = observer.values
    stack = observer.stack
    references, storages = values.references, values.storages
    requires_grad, writes = values.requires_grad, values.writes
    add_value, unknown_row, wrote = values.add, values._unknown, values.wrote
    through_storage, previous = values.through_storage, values.previous
    funcs, kernel_calls, kernel_sites = observer.kernel_funcs, observer.kernel_calls, observer.kernel_sites
    kernel_groups, kernel_inputs = observer.kernel_groups, observer.kernel_inputs
    kernel_outputs, kernel_arguments = observer.kernel_outputs, observer.kernel_arguments
    kernel_sequence, also_reads, sites = observer.kernel_sequence, observer.also_reads, observer.sites
    listeners = observer.listeners
    facts: dict[Any, KernelFacts] = {}
    site_numbers: dict[tuple[int, ...], int] = {}
    kinds = _kinds
    get_frame = sys._getframe
    last_frame = last_site = -1
    group = -1

    def new_group() -> None:
        nonlocal last_frame
        last_frame = -1

    observer._new_group = new_group

    def new_site(frame: FrameType) -> tuple[tuple[CodeType, int], ...]:
        return tuple(_frames(frame, kinds))

    def record_outputs(result: Any, kernel: int, inputs: list[Tensor], rows: list[int], fact: KernelFacts) -> None:
        """The general case: several results, results that are arguments, higher-order operators."""
        made: list[int] = []
        for _, tensor in named_tensors(result):
            row = -1
            for position, argument in enumerate(inputs):
                if argument is tensor:
                    row = references[id(tensor)].row if id(tensor) in references else rows[position]
                    break
            if row < 0:
                storage = -1
                if fact.memory and inputs:
                    if fact.memory == VIEW:
                        storage = storages[rows[0]]
                    else:
                        alias = values._alias(tensor)
                        storage = storages[alias] if alias >= 0 else -1
                row = add_value(tensor, kernel, storage)
            made.append(row)
        kernel_outputs[kernel] = tuple(made)

    def record_writes(args: Any, kwargs: Any, kernel: int, inputs: list[Tensor], fact: KernelFacts) -> None:
        written = [args[position] for position in fact.written_positions if position < len(args)]
        if kwargs:
            written += [kwargs[name] for name in fact.written_names if name in kwargs]
        for _, tensor in named_tensors(written):
            before = values.row(tensor)
            row = add_value(tensor, kernel, storages[before])
            previous[row] = before
            if tensor.requires_grad:
                requires_grad[row] = 1
            wrote(row)
            kernel_outputs[kernel] += (row,)

    def dispatch(func: Any, args: Any, kwargs: Any) -> Any:
        nonlocal last_frame, last_site, group
        if observer.paused:
            return func(*args, **kwargs) if kwargs else func(*args)
        if not stack:
            if _in_backward() != -1:
                observer.had_backward = True
                return func(*args, **kwargs) if kwargs else func(*args)
            if observer.had_backward:
                return func(*args, **kwargs) if kwargs else func(*args)
        try:
            fact = facts[func]
        except KeyError:
            fact = facts[func] = facts_of(func)
        if fact.skipped:
            return func(*args, **kwargs) if kwargs else func(*args)

        # arguments
        inputs: list[Tensor] = []
        template: list[Any] = []
        for value in args:
            if isinstance(value, Tensor):
                template.append(TENSOR_MARKS[len(inputs)])
                inputs.append(value)
            elif type(value) is list or type(value) is tuple:
                template.append(_outlined(value, inputs))
            else:
                template.append(value)
        if kwargs:
            named = {key: _outlined(value, inputs) for key, value in kwargs.items()}
        else:
            named = None
        kernel = len(funcs)
        rows: list[int] = []
        for tensor in inputs:
            reference = references.get(id(tensor))
            if reference is not None and reference() is tensor:
                row = reference.row
            else:
                row = unknown_row(tensor)
            if not requires_grad[row] and tensor.requires_grad:
                requires_grad[row] = 1
            rows.append(row)
        if writes:
            also: list[int] = []
            for row in rows:
                if storages[row] in writes:
                    also += through_storage(row)
            if also:
                also_reads[kernel] = sorted(set(also).difference(rows))

        # call site
        frame: Any = get_frame(2)
        key: tuple[int, ...] = ()
        innermost = None
        depth = 0
        while frame is not None and depth < MAXIMUM_FRAMES:
            code = frame.f_code
            kind = kinds.get(id(code))
            if kind is None:
                kind = kinds[id(code)] = (code, _kind_of(code))
            if kind[1] == _KIND_CODE:
                if innermost is None:
                    innermost = frame
                key += (id(code), frame.f_lasti)
                depth += 1
            elif kind[1] == _KIND_BOUNDARY:
                break
            frame = frame.f_back
        site = site_numbers.get(key, -1)
        if site < 0:
            site = site_numbers[key] = len(sites)
            sites.append(new_site(get_frame(2)))
        frame_id = id(innermost)
        if frame_id != last_frame or site != last_site:
            group += 1
            last_frame, last_site = frame_id, site
        frame = innermost = None

        funcs.append(func)
        kernel_calls.append(stack[-1] if stack else OUTSIDE)
        kernel_sites.append(site)
        kernel_groups.append(group)
        kernel_inputs.append(tuple(rows))
        kernel_arguments.append((template, named))
        kernel_sequence.append(_sequence_number())
        kernel_outputs.append(())

        for listener in listeners:
            listener.before_kernel(func, args, kwargs or {}, observer.context())
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except BaseException as error:
            _kernel_failed(observer, error, func, inputs)
            raise
        if fact.written_positions:
            record_writes(args, kwargs, kernel, inputs, fact)
            if not isinstance(result, Tensor) or not any(result is tensor for tensor in inputs):
                written = kernel_outputs[kernel]
                record_outputs(result, kernel, inputs, rows, fact)
                kernel_outputs[kernel] = tuple(dict.fromkeys(kernel_outputs[kernel] + written))
        elif isinstance(result, Tensor) and not fact.memory:
            kernel_outputs[kernel] = (add_value(result, kernel, -1),)
        elif result is not None:
            record_outputs(result, kernel, inputs, rows, fact)
        for listener in listeners:
            listener.after_kernel(func, args, kwargs or {}, result, observer.context())
        return result

    return dispatch


def _outlined(value: Any, inputs: list[Tensor]) -> Any:
    """An argument with its tensors replaced by marks; the tensors are appended to `inputs`."""
    if isinstance(value, Tensor):
        position = len(inputs)
        inputs.append(value)
        return TENSOR_MARKS[position] if position < len(TENSOR_MARKS) else {"t": position}
    if isinstance(value, (list, tuple)):
        return [_outlined(item, inputs) for item in value]
    if isinstance(value, dict):
        return {str(key): _outlined(item, inputs) for key, item in value.items()}
    return value


def _kernel_failed(observer: Observer, error: BaseException, func: Any, inputs: Sequence[Tensor]) -> None:
    failure = Failure(error, observer.stack[-1] if observer.stack else OUTSIDE)
    failure.kernel = str(func)
    failure.operands = [
        f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} {tensor.device}" for tensor in inputs
    ]
    observer.failures.append(failure)


def _frames(frame: Any, kinds: dict[int, tuple[CodeType, int]]) -> list[tuple[CodeType, int]]:
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < MAXIMUM_FRAMES:
        kind = kinds[id(frame.f_code)] if id(frame.f_code) in kinds else (frame.f_code, _kind_of(frame.f_code))
        if kind[1] == _KIND_CODE:
            found.append((frame.f_code, frame.f_lasti))
        elif kind[1] == _KIND_BOUNDARY:
            break
        frame = frame.f_back
    return found
