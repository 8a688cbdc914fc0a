"""What runs before and after every module call: as little as tells later which call ran what, on which values.

The usual call (of a module of the model that is running, with tensors as they were) is done here; what is rarer is left
to methods of the observer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from tb_plugin_structure.capture.observer import Observer

_in_backward = torch._C._current_graph_task_id

Hooks = tuple[Callable[[nn.Module, Any], None], Callable[..., None]]


def module_hooks(observer: Observer, thread: int, new_call: Callable[[int, int, int, int], Any]) -> Hooks:
    """Hooks for ``register_module_forward_pre_hook`` and ``register_module_forward_hook``.

    Args:
        observer: What is filled.
        thread: The one that is observed: hooks are global, and other threads run other models.
        new_call: (model, module, parent, first kernel) -> a :class:`ModuleCall`.
    """
    values, stack, calls, kernels = observer.values, observer.stack, observer.calls, observer.kernels
    storages, writes, requires_grad = values.storages, values.writes, values.requires_grad
    known_reference: Callable[[int], Any] = values.references.get
    owner_of, implied = observer.owner_of.get, observer.implied_calls
    append_call, push, pop = calls.append, stack.append, stack.pop
    get_ident = threading.get_ident
    if observer.exchanges_memory:
        known_reference = dict[int, Any]().get  # the observer looks up what a tensor holds, each time

    def before(module: nn.Module, args: Any) -> None:
        if get_ident() != thread or observer.fault is not None:
            return
        try:
            owner = owner_of(id(module))
            parent = stack[-1] if stack else -1
            if owner is None or parent < 0 or calls[parent].model != owner[0]:
                owner = owner or observer.find(module)
                if owner is not None and (stack or _in_backward() == -1):
                    observer.enter(owner, module, args)
                return
            entry = new_call(owner[0], owner[1], parent, len(kernels))
            push(len(calls))
            append_call(entry)
            if len(args) == 1 and isinstance(tensor := args[0], Tensor):
                reference = known_reference(id(tensor))
                if reference is not None and reference() is tensor and storages[reference.row] not in writes:
                    entry.inputs = (("0", reference.row),)
                else:
                    entry.inputs = (("0", observer.current(tensor)),)
            elif args:
                entry.inputs = observer.current_arguments(args)
        except Exception as error:
            observer.give_up(error)

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
        # When the forward raised, torch calls with (module, args, None): without the keyword arguments.
        if not stack or get_ident() != thread or observer.fault is not None:
            return
        try:
            owner = owner_of(id(module))
            if owner is None:
                return
            top = calls[stack[-1]]
            is_plain = isinstance(output, Tensor) and not kwargs
            if not is_plain or top.parent < 0 or top.parent in implied or (top.model, top.module) != owner:
                observer.leave(owner, args, kwargs, output)
                return
            pop()
            top.end = len(kernels)
            reference = known_reference(id(output))
            if reference is not None and reference() is output and storages[reference.row] not in writes:
                row = reference.row
                if not requires_grad[row] and output.requires_grad:
                    values.reached_by_gradient(row, output)
                top.outputs = (("", row),)
            else:
                top.outputs = (("", observer.returned(output)),)
        except Exception as error:
            observer.give_up(error)

    return before, after
