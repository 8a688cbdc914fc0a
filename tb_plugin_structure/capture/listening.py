"""Watches a region for its listeners alone: which module call a kernel runs in, and nothing that a structure needs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure.capture.events import ModuleCall
from tb_plugin_structure.capture.higher_order import HigherOrderMode
from tb_plugin_structure.capture.kernels import KernelFacts, facts_of
from tb_plugin_structure.capture.module_hooks import Hooks
from tb_plugin_structure.capture.observer import ObservedModel, Observer, _in_backward


class ListeningObserver(Observer):
    """An observer that keeps no kernels, values, arguments or call sites: for regions that record attention alone."""

    def _register(self, index: int, model: ObservedModel) -> None:
        for row, entry in enumerate(model.table.entries):
            module = entry.module()
            if module is not None and (row == 0 or id(module) not in self.owner_of):
                self.owner_of[id(module)] = (index, row)

    def hooks(self) -> Hooks:
        """Hooks that keep the stack of module calls alone."""
        thread = threading.get_ident()

        def before(module: nn.Module, args: Any) -> None:
            if threading.get_ident() != thread or self.fault is not None:
                return
            try:
                owner = self.owner_of.get(id(module)) or self.find(module)
                if owner is not None and (self.stack or _in_backward() == -1):
                    self.enter(owner, module, args)
            except Exception as error:
                self.give_up(error)

        def after(module: nn.Module, args: Any, kwargs: Any, output: Any = None) -> None:
            owner = self.owner_of.get(id(module))
            if owner is not None and self.stack and threading.get_ident() == thread and self.fault is None:
                self.leave(owner, args, kwargs, output)

        return before, after

    def mode(self) -> TorchDispatchMode:
        """A mode that tells the listeners of every kernel."""

        class ListeningMode(HigherOrderMode):
            pass

        ListeningMode.__torch_dispatch__ = _dispatcher(self)  # type: ignore[assignment]
        return ListeningMode()  # type: ignore[no-untyped-call]

    def enter(self, owner: tuple[int, int], module: nn.Module, args: Any) -> None:
        index, row = owner
        stack = self.stack
        if row and not any(self.calls[call].model == index for call in stack):
            # A part is called without the model around it, e.g. model.encode(x): the model's own call is implied.
            self.enter((index, 0), self.models[index].table.model, ())
        key = (index, row)
        ordinal = self._calls_of.get(key, 0)
        self._calls_of[key] = ordinal + 1
        self._ordinals.append(ordinal)
        stack.append(len(self.calls))
        self.calls.append(ModuleCall(index, row, -1, 0))
        self._counted = len(self.calls)

    def leave(self, owner: tuple[int, int], args: Any, kwargs: Any, output: Any) -> None:
        stack, calls = self.stack, self.calls
        for position in range(len(stack) - 1, -1, -1):
            top = calls[stack[position]]
            if (top.model, top.module) == owner:
                del stack[position:]
                return


_facts: dict[int, KernelFacts] = {}
"""id of an overload -> its facts, which hold the overload; for all regions, as reading a schema takes longer than many
a kernel."""


def _dispatcher(observer: Observer) -> Callable[..., Any]:
    stack, calls, listeners = observer.stack, observer.calls, tuple(observer.listeners)
    known = _facts.get

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        facts = known(id(func))
        if facts is None:
            facts = _facts[id(func)] = facts_of(func)
        if not stack or not listeners or observer.paused or facts.skipped or _in_backward() != -1:
            return facts.run(*args, **kwargs)
        try:
            call = calls[stack[-1]].context or observer.context()
            for listener in listeners:
                listener.before_kernel(func, args, kwargs, call)
        except Exception as error:
            observer.give_up(error)
            return facts.run(*args, **kwargs)
        result = facts.run(*args, **kwargs)
        try:
            for listener in listeners:
                listener.after_kernel(func, args, kwargs, result, call)
        except Exception as error:
            observer.give_up(error)
        return result

    return dispatch
