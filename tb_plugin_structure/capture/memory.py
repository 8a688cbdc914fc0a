"""Memory of a pass: what modules need at most, and what autograd keeps until the backward pass.

Counted are the storages of tensors that kernels make, from when they come until they go. What a kernel allocates for
itself while it runs (workspaces of convolutions), and how an allocator rounds, is not in it: the figures are the same
on every device, and known without weights.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure.capture.kernels import facts_of
from tb_plugin_structure.capture.modules import ModuleTable
from tb_plugin_structure.capture.nested import named_arguments, named_tensors
from tb_plugin_structure.capture.repetition import Repetition
from tb_plugin_structure.capture.timing import call_keys
from tb_plugin_structure.records.structure import Structure

_DETACH = "aten.detach.default"
"""Runs where autograd saves a result, but not while somebody watches that: kernels are counted without it."""
_OUTSIDE = -1
"""Maker of a storage that was there before the pass."""


def measure_memory(structure: Structure, repetition: Repetition, model: nn.Module) -> None:
    """Fill ``peak_bytes`` of module calls, ``saved_bytes`` of operators, and both totals, from one further pass."""
    notes = structure.header.notes
    measured = _StorageCount(model, saved=True)
    with_saved = True
    try:
        repetition.run(measured)
    except RuntimeError as error:
        if "saved tensor" not in str(error).lower():
            raise
        # torch.func's transforms refuse to run while somebody watches what autograd saves.
        with_saved = False
        measured = _StorageCount(model, saved=False)
        repetition.run(measured)
        notes.append(f"What autograd saves was not measured: {str(error).splitlines()[0][:160]}")
    keys = call_keys(structure)
    structure.set_columns("module_calls", {"peak_bytes": [measured.peaks.get(key, float("nan")) for key in keys]})
    structure.header.totals.peak_bytes = int(measured.peaks.get((0, 0), 0))
    if not with_saved:
        return
    structure.header.totals.saved_bytes = sum(measured.saved.values())
    of_operators = np.full(structure.operators.rows, np.nan)
    names = structure.kernels.column_texts("name")
    counted = [kernel for kernel, name in enumerate(names) if name != _DETACH]
    if measured.names == [names[kernel] for kernel in counted]:
        of_operators = np.zeros(structure.operators.rows)
        operator_of = structure.kernels["operator"]
        for position, size in measured.saved.items():
            of_operators[operator_of[counted[min(position, len(counted) - 1)]]] += size
    else:
        notes.append("What autograd saves is known in total only: the further pass did not run the same kernels.")
    structure.set_columns("operators", {"saved_bytes": of_operators})


class _Frame:
    """A module call while it runs."""

    __slots__ = ("began_with", "key", "module", "peak")

    def __init__(self, module: nn.Module, key: tuple[int, int], alive: int) -> None:
        self.module = module
        self.key = key
        self.began_with = alive
        self.peak = alive


class _StorageCount:
    """Follows the storages of one pass."""

    def __init__(self, model: nn.Module, *, saved: bool) -> None:
        self._rows = ModuleTable(model).row_of
        self._watches_saved = saved
        self.names: list[str] = []
        self.peaks: dict[tuple[int, int], float] = {}
        self.saved: dict[int, int] = {}
        """Kernel -> bytes that autograd keeps on its behalf and on nobody's before."""
        self._alive = 0
        self._references: dict[int, weakref.ref[Any]] = {}
        self._makers: dict[int, int] = {}
        self._weights: set[int] = set()
        self._kept: set[int] = set()
        self._stack: list[_Frame] = []
        self._packing = False
        self._last_site: tuple[Any, int] = (None, -1)

    # ---- storages

    def _met(self, tensor: Tensor, maker: int) -> int:
        """Key of a tensor's storage, which is counted when it is new and a kernel of the pass made it; 0 for none."""
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):  # sparse and nested tensors have none
            return 0
        key: int = storage._cdata
        if key in self._references:
            return key
        size = storage.nbytes() if maker != _OUTSIDE else 0

        def gone(_: Any) -> None:
            self._alive -= size
            self._references.pop(key, None)
            self._makers.pop(key, None)
            self._kept.discard(key)

        self._references[key] = weakref.ref(storage, gone)
        self._makers[key] = maker
        self._alive += size
        if self._stack and self._stack[-1].peak < self._alive:
            self._stack[-1].peak = self._alive
        return key

    # ---- what autograd keeps

    def _pack(self, tensor: Tensor) -> Tensor:
        frame = sys._getframe(1)
        last = len(self.names) - 1
        self._packing = True
        try:
            key = self._met(tensor, _OUTSIDE)
            if key and key not in self._weights and key not in self._kept:
                self._kept.add(key)
                in_function = frame.f_code.co_filename.replace("\\", "/").endswith("torch/autograd/function.py")
                # An operator's results are kept after it ran, its arguments before the next kernel runs.
                made_just_now = self._makers.get(key) == last and self._last_site == (frame.f_code, frame.f_lasti)
                kernel = last if (made_just_now or in_function) and last >= 0 else last + 1
                self.saved[kernel] = self.saved.get(kernel, 0) + tensor.untyped_storage().nbytes()
            return tensor.detach()  # the tensor itself would keep its own graph alive in a circle
        finally:
            self._packing = False

    # ---- the pass

    @contextlib.contextmanager
    def watching(self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
        thread = threading.get_ident()
        counts: dict[int, int] = {}
        for tensor in [*model.parameters(), *model.buffers()]:
            self._weights.add(self._met(tensor, _OUTSIDE))
        for _, tensor in named_arguments(tuple(args), kwargs):
            self._met(tensor, _OUTSIDE)
        count = self

        def before(module: nn.Module, _: Any) -> None:
            row = count._rows.get(id(module))
            if row is not None and threading.get_ident() == thread:
                number = counts.get(row, 0)
                counts[row] = number + 1
                count._stack.append(_Frame(module, (row, number), count._alive))

        def after(module: nn.Module, _: Any, __: Any) -> None:
            stack = count._stack
            if not stack or stack[-1].module is not module or threading.get_ident() != thread:
                return
            frame = stack.pop()
            count.peaks[frame.key] = float(frame.peak - frame.began_with)
            if stack:
                stack[-1].peak = max(stack[-1].peak, frame.peak)

        class MemoryMode(TorchDispatchMode):
            supports_higher_order_operators = True

        def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if count._packing:
                return func(*args, **(kwargs or {}))
            facts = facts_of(func)
            for _, tensor in named_arguments(args, kwargs or {}):
                count._met(tensor, _OUTSIDE)
            if not facts.skipped and facts.name != _DETACH:
                count.names.append(facts.name)
                caller = sys._getframe(1)
                count._last_site = (caller.f_code, caller.f_lasti)
            result = func(*args, **(kwargs or {}))
            for _, tensor in named_tensors(result):
                count._met(tensor, len(count.names) - 1)
            return result

        MemoryMode.__torch_dispatch__ = dispatch  # type: ignore[assignment]
        handles = [
            register_module_forward_pre_hook(before),
            register_module_forward_hook(after, always_call=True),
        ]
        try:
            with contextlib.ExitStack() as stack:
                if self._watches_saved:
                    stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor))
                stack.enter_context(MemoryMode())  # type: ignore[no-untyped-call]
                yield
        finally:
            for handle in handles:
                handle.remove()
            self._references.clear()  # the storages may outlive this; nobody counts any more
