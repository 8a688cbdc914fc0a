"""Watches a region of the user's code: module hooks and one dispatch mode, appending to flat lists.

Everything that can wait is done afterwards (:mod:`assembly`, :mod:`call_sites`): this file is the hot path, a few
microseconds a kernel. Nothing is patched, no argument or result is replaced, and other threads are not touched.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure.capture import provenance
from tb_plugin_structure.capture.collection import RarerCollections
from tb_plugin_structure.capture.dispatch import OUTSIDE, recording_mode, retire
from tb_plugin_structure.capture.events import NO_CALL, Failure, Kernel, KernelContext, ModuleCall, outline
from tb_plugin_structure.capture.exchanged_memory import exchanges_memory, swaps_tensors
from tb_plugin_structure.capture.implied_calls import settle_implied_calls
from tb_plugin_structure.capture.module_hooks import Hooks, module_hooks
from tb_plugin_structure.capture.modules import ModuleTable
from tb_plugin_structure.capture.nested import named_arguments, named_tensors
from tb_plugin_structure.capture.optimizer_steps import optimizer_hooks
from tb_plugin_structure.capture.values import BUFFER, EXTERNAL, INPUT, PARAMETER, Source, Values

logger = logging.getLogger("tb_plugin_structure")

_in_backward = torch._C._current_graph_task_id
_get_ident = threading.get_ident


class ObservedModel:
    """A model under its name in the region."""

    def __init__(self, name: str, model: nn.Module) -> None:
        self.name = name
        self.table = ModuleTable(model)
        self.training = self.table.model.training
        self.grad_mode = ""
        self.autocast = ""
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.parameters: list[tuple[str, Tensor, int, bool]] = []
        self.error: Failure | None = None


class Observer:
    """Records into flat lists, one entry a kernel."""

    def __init__(self, models: Sequence[ObservedModel], listeners: Sequence[Any] = ()) -> None:
        self.models = list(models)
        self.listeners = list(listeners)
        modules = [
            each for model in self.models for entry in model.table.entries if (each := entry.module()) is not None
        ]
        self.exchanges_memory = exchanges_memory(modules, sys._getframe())
        self.values = Values(swapped=self.exchanges_memory and swaps_tensors(modules, sys._getframe()))
        self.calls: list[ModuleCall] = []
        self.stack: list[int] = []
        self._open_implied: dict[int, int] = {}
        """Model -> the call that its parts imply, until a backward pass or a call of the model itself."""
        self.implied_calls: set[int] = set()
        """All of these."""
        self.kernels: list[Kernel] = []
        self.kernel_outputs: list[tuple[int, ...]] = []
        self.also_reads: dict[int, list[int]] = {}
        self.failures: list[Failure] = []
        self.had_backward = False
        self._after_backward = 0
        self._discarded: list[tuple[int, int]] = []
        self.stepped: list[torch.optim.Optimizer] = []
        """Optimizers that stepped within the region."""
        self.paused = 0
        self.fault: Exception | None = None
        self._counted = 0
        self._calls_of: dict[tuple[int, int], int] = {}
        self._ordinals: list[int] = []
        self._recursion_limit = 0
        self._collections = RarerCollections()
        self.owner_of: dict[int, tuple[int, int]] = {}
        self._foreign: dict[int, Any] = {}
        self._handles: list[Any] = []
        self._mode: Any = None
        self._thread = 0
        for index, model in enumerate(self.models):
            self._register(index, model)

    def _register(self, index: int, model: ObservedModel) -> None:
        owner_of = self.owner_of
        for key, row in model.table.row_of.items():
            if row == 0 or key not in owner_of:
                owner_of[key] = (index, row)
        name = model.name
        self.values.register_all(
            (tensor, Source(BUFFER if is_buffer else PARAMETER, name, path))
            for path, tensor, _, is_buffer in model.table.tensors()
        )

    def expect(self, index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Say beforehand what a model will be called with, so that a pass that raises knows its inputs too."""
        model = self.models[index]
        model.arguments = (outline(args), outline(kwargs))
        for name, tensor in named_arguments(args, kwargs):
            self.values.register(tensor, Source(INPUT, model.name, name))

    # ---- start and stop

    def start(self) -> None:
        """Register hooks and enter the mode; undone by :meth:`stop`, also when this fails half-way."""
        self._thread = _get_ident()
        self._collections.start()
        # A module call with hooks takes more Python frames than one without: what can be called can be recorded.
        self._recursion_limit = sys.getrecursionlimit()
        sys.setrecursionlimit(2 * self._recursion_limit)
        try:
            before, after = self.hooks()
            self._handles.append(register_module_forward_pre_hook(before))
            self._handles.append(register_module_forward_hook(after, with_kwargs=True, always_call=True))
            self._handles += optimizer_hooks(self, self._thread)
            mode = self.mode()
            mode.__enter__()
            self._mode = mode
        except BaseException:
            self.stop()
            raise

    def hooks(self) -> Hooks:
        """What runs before and after every module call."""
        return module_hooks(self, self._thread, ModuleCall)

    def mode(self) -> TorchDispatchMode:
        """What sees the kernels."""
        return recording_mode(self)

    def stop(self) -> None:
        """Leave the mode and remove every hook."""
        mode, self._mode = self._mode, None
        try:
            if mode is not None:
                mode.__exit__(None, None, None)
                retire(mode)
        finally:
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            self._collections.stop()
            if self._recursion_limit:
                sys.setrecursionlimit(self._recursion_limit)
                self._recursion_limit = 0
            for call in self.calls:
                if call.end < 0:
                    call.end = len(self.kernels)
            settle_implied_calls(self)

    def release(self) -> None:
        """Let go of models and tensors: what stays is what was recorded."""
        self.values.release()
        self.listeners.clear()
        self.owner_of.clear()
        for model in self.models:
            model.table.release()

    def forget(self) -> None:
        """Let go of what was recorded, too: it was put together, and nobody reads it again."""
        for recorded in (self.kernels, self.kernel_outputs, self.calls, self.also_reads):
            recorded.clear()
        self.values = Values()

    # ---- kernels

    def outside_is_recorded(self, kernel: Any, arguments: Sequence[Any]) -> bool:
        """Whether a kernel that runs in no module call is recorded: not in a backward pass. After one, only what reads
        a value of this step while gradients are enabled: it belongs to a further loss if a further backward pass
        follows (:attr:`discarded`), and is a metric if none does."""
        if _in_backward() != -1:
            self.had_backward = True
            self._open_implied.clear()
            self._after_backward = len(self.kernels)
            return False
        if not self.had_backward or (torch.is_grad_enabled() and any(map(self._was_made, arguments))):
            return True
        if arguments and getattr(getattr(kernel, "_schema", None), "is_mutable", False):
            # New weights without an optimizer (sharpness-aware minimisation, a moving average): values of their own.
            written = arguments[0] if isinstance(arguments[0], (list, tuple)) else arguments[:1]
            for tensor in written:
                if isinstance(tensor, Tensor):
                    self.values.forget(tensor)
        return False

    def _was_made(self, value: Any) -> bool:
        """Whether an argument is a tensor that a recorded kernel made, or a list with one."""
        if isinstance(value, (list, tuple)):
            return any(map(self._was_made, value))
        reference = self.values.references.get(id(value))
        return reference is not None and reference() is value and self.values.producers[reference.row] >= 0

    def discarded(self) -> list[tuple[int, int]]:
        """Ranges of kernels that followed the last backward pass over their values: those among them that run in no
        module call are no part of a loss."""
        return [*self._discarded, *([(self._after_backward, len(self.kernels))] if self.had_backward else [])]

    def kernel_failed(self, error: BaseException, name: str, inputs: Sequence[Tensor]) -> None:
        failure = Failure(error, self.stack[-1] if self.stack else OUTSIDE)
        failure.kernel = name
        failure.operands = [f"{outline(tensor)} {tensor.device}" for tensor in inputs]
        failure.rows = [self.values.known(tensor) for tensor in inputs]
        self.failures.append(failure)

    # ---- module calls

    def give_up(self, error: Exception) -> None:
        """A fault of ours must not end the user's pass: nothing more is recorded, and the record says why."""
        self.fault = self.fault or error
        self.paused += 1  # for good: nothing takes this one back
        logger.warning("Recording stopped, the pass goes on: %s: %s", type(error).__name__, error, exc_info=error)

    def enter(self, owner: tuple[int, int], module: nn.Module, args: Any) -> None:
        """A module call begins. `owner`: model and row of the module."""
        index, row = owner
        stack, calls = self.stack, self.calls
        parent = stack[-1] if stack else -1
        if parent < 0 or calls[parent].model != index:
            parent = self._caller(index)
            if parent < 0 and row != 0:
                parent = self._implied(index)
        entry = ModuleCall(index, row, parent, len(self.kernels))
        stack.append(len(calls))
        calls.append(entry)
        if parent < 0:
            self._open_implied.pop(index, None)
            model = self.models[index]
            model.grad_mode = model.grad_mode or provenance.grad_mode()
            if not model.autocast:
                model.autocast = provenance.autocast_dtype(("cpu", "cuda"))
            model.training = module.training
            if self.had_backward:  # a further pass: what comes after it counts again
                self._discarded.append((self._after_backward, len(self.kernels)))
                self.had_backward = False
            entry.inputs = [
                (name, self.current(tensor, Source(INPUT, model.name, name)))
                for name, tensor in named_arguments(args, {})
            ]
        else:
            entry.inputs = self.current_arguments(args)

    def current_arguments(self, args: Any) -> list[tuple[str, int]]:
        """Names and values of the tensors among positional arguments."""
        return [(name, self.current(tensor)) for name, tensor in named_arguments(args, {})]

    def _implied(self, index: int) -> int:
        """A part is called without the model around it, e.g. model.encode(x): the model's own call is implied, one for
        all parts up to the next backward pass. It runs while a part does; what ran between is settled in the end."""
        number = self._open_implied.get(index, -1)
        if number >= 0:
            self.stack.append(number)
            return number
        self.enter((index, 0), self.models[index].table.model, ())
        number = self._open_implied[index] = self.stack[-1]
        self.implied_calls.add(number)
        return number

    def _caller(self, index: int) -> int:
        """The innermost running call of a model, -1 when there is none."""
        return next((call for call in reversed(self.stack) if self.calls[call].model == index), -1)

    def find(self, module: nn.Module) -> tuple[int, int] | None:
        """Modules that were added to a model after the region began; others are not ours and are remembered."""
        key = id(module)
        known = self._foreign.get(key)
        if known is not None and known() is module:
            return None
        for index, model in enumerate(self.models):
            if model.table.refresh():
                self._register(index, model)
        found = self.owner_of.get(key)
        if found is None:
            import weakref

            self._foreign[key] = weakref.ref(module)
        return found

    def leave(self, owner: tuple[int, int], args: Any, kwargs: Any, output: Any) -> None:
        """A module call ends, and with it those within it that never came to their end."""
        stack, calls = self.stack, self.calls
        for position in range(len(stack) - 1, -1, -1):
            top = calls[stack[position]]
            if (top.model, top.module) == owner:
                break
        else:
            return
        number = stack[position]
        while len(stack) > position:
            calls[stack.pop()].end = len(self.kernels)
        if stack and stack[-1] in self.implied_calls:
            calls[stack.pop()].end = len(self.kernels)
        if kwargs:
            source_name = self.models[owner[0]].name if top.parent < 0 else ""
            named = named_arguments((), kwargs)
            if named:
                rows = [(name, self._row_at_entry(tensor, top, source_name, name)) for name, tensor in named]
                top.inputs = [*top.inputs, *rows]
        if top.parent < 0 and owner[1] == 0 and self.models[owner[0]].arguments is None:
            self.models[owner[0]].arguments = (outline(args), outline(kwargs or {}))
        if output is None:
            error = sys.exc_info()[1]
            if error is not None:
                top.raised = True
                self._failed(error, number)
                return
        if isinstance(output, Tensor):
            top.outputs = (("", self.returned(output)),)
        else:
            top.outputs = [(name, self.returned(tensor)) for name, tensor in named_tensors(output)]

    def returned(self, tensor: Tensor) -> int:
        """The value of a tensor that a call returns; autograd says by now whether it requires a gradient."""
        row = self.current(tensor)
        if tensor.requires_grad and not self.values.requires_grad[row]:
            self.values.reached_by_gradient(row, tensor)
        return row

    def current(self, tensor: Tensor, source: Source | None = None) -> int:
        """The value a tensor holds now, writes through other views of its memory included.

        Such a write makes a new value of this tensor too: it is added to the results of the kernel that wrote last,
        which is said to read what it left standing.
        """
        values = self.values
        if self.exchanges_memory:
            values.look_again(tensor)
        reference = values.references.get(id(tensor))
        if reference is not None and reference() is tensor:
            row = reference.row
        else:
            row = values.unknown(tensor, source)
        if not values.writes or values.storages[row] not in values.writes:
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
        self.also_reads[kernel] = sorted(left_standing.difference(self.kernels[kernel][3]))
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

    def _ordinal(self, number: int) -> int:
        """Which of its module's calls in the region a call is."""
        for other in range(self._counted, len(self.calls)):
            key = (self.calls[other].model, self.calls[other].module)
            ordinal = self._calls_of.get(key, 0)
            self._calls_of[key] = ordinal + 1
            self._ordinals.append(ordinal)
        self._counted = len(self.calls)
        return self._ordinals[number]

    def context(self) -> KernelContext:
        """The innermost module call, for listeners."""
        if not self.stack:
            return NO_CALL
        number = self.stack[-1]
        call = self.calls[number]
        if call.context is None:
            model = self.models[call.model]
            entry = model.table.entries[call.module]
            call.context = KernelContext(model.name, entry.path, self._ordinal(number), entry.module())
        return call.context
