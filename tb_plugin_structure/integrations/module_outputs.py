"""What modules return in a pass of the user's own: statistics of their outputs, their time, the memory they leave.

Hooks are there only while a pass is watched. What they compute is seen by no mode and no autograd graph, and the time
that takes is taken off the times of the modules around it.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from tb_plugin_structure.capture.attention.aside import aside
from tb_plugin_structure.capture.modules import ModuleTable
from tb_plugin_structure.capture.nested import named_tensors
from tb_plugin_structure.capture.timing import CudaClock, WallClock, clock_of
from tb_plugin_structure.integrations.statistics import local_part, values_of

MOST_ELEMENTS = 1 << 24
"""Of larger outputs the first examples of the batch are looked at: what is computed beside them must stay small."""

COLUMNS = (
    "activation_mean",
    "activation_std",
    "zero_fraction",
    "dead_fraction",
    "output_bytes",
    "forward_ns",
    "allocated_bytes",
)

_in_backward = torch._C._current_graph_task_id
_is_transformed = torch._C._functorch.is_functorch_wrapped_tensor


class _Call(NamedTuple):
    module: nn.Module
    owner: tuple[int, int]
    begin: Any
    allocated: int
    asides: int
    """How many times something was computed beside the pass until the call began."""


class ModuleOutputs:
    """Watches the forward passes of some models between :meth:`start` and :meth:`stop`.

    Args:
        models: Name -> model; wrappers are seen through. A model with compiled parts is left out: a hook would make
            torch compile it again.
        timed: Whether times are those of the user's own step (not while a recorder slows it down).
        failed: Told about an exception in here; the pass goes on.
    """

    def __init__(self, models: Mapping[str, nn.Module], *, timed: bool, failed: Callable[[Exception], None]) -> None:
        self._models = {name: ModuleTable(model) for name, model in models.items() if not _is_compiled(model)}
        self._rows: dict[int, tuple[int, int]] = {}
        for index, table in enumerate(self._models.values()):
            for key, row in table.row_of.items():
                self._rows.setdefault(key, (index, row))
        self._clock = _cheap_clock(list(self._models.values())) if timed else None
        self._failed = failed
        self._thread = threading.get_ident()
        self._open: list[_Call] = []
        self._asides: list[tuple[Any, Any]] = []
        self._times: list[tuple[tuple[int, int], Any, Any, int, int]] = []
        self._bytes: dict[tuple[int, int], float] = {}
        self._allocated: dict[tuple[int, int], float] = {}
        self._numbers: list[Tensor] = []
        self._slots: dict[tuple[int, int], list[int]] = {}
        """Owner -> where in `_numbers` the four statistics of each of its outputs begin."""
        self._looked_at: dict[int, tuple[Any, int, int]] = {}
        """id of a tensor -> (reference, version, slot): the last layer's output is often the model's, too."""
        self._handles: list[Any] = []

    def start(self) -> None:
        self._handles.append(register_module_forward_pre_hook(self._before))
        self._handles.append(register_module_forward_hook(self._after))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._open.clear()
        self._looked_at.clear()

    def of_model(self, name: str) -> dict[str, dict[str, float]]:
        """Module path -> quantity -> value; calls of one module are averaged, or added up where that is meant."""
        if name not in self._models:
            return {}
        index = list(self._models).index(name)
        numbers = self._resolved()
        times = self._durations()
        found: dict[str, dict[str, float]] = {}
        for row, entry in enumerate(self._models[name].entries):
            owner = (index, row)
            values: dict[str, float] = {}
            slots = self._slots.get(owner, [])
            for offset, column in enumerate(COLUMNS[:4]):
                known = [numbers[slot + offset] for slot in slots if not math.isnan(numbers[slot + offset])]
                if known:
                    values[column] = sum(known) / len(known)
                elif slots and column == "activation_std":
                    values[column] = math.inf  # NaN would mean that nothing was looked at
            for column, of in (
                ("output_bytes", self._bytes),
                ("forward_ns", times),
                ("allocated_bytes", self._allocated),
            ):
                if owner in of:
                    values[column] = of[owner]
            if values:
                found[entry.path] = values
        return found

    # ---- hooks

    def _before(self, module: nn.Module, _: Any) -> None:
        owner = self._owner(module)
        if owner is not None:
            begin = self._clock.now() if self._clock is not None else None
            self._open.append(_Call(module, owner, begin, _allocated(), len(self._asides)))

    def _after(self, module: nn.Module, _: Any, output: Any) -> None:
        owner = self._owner(module)
        if owner is None:
            return
        end = self._clock.now() if self._clock is not None else None
        call = next((call for call in reversed(self._open) if call.module is module), None)
        if call is None:
            return
        del self._open[self._open.index(call) :]  # calls within that raised never ended
        if self._clock is not None:
            self._times.append((owner, call.begin, end, call.asides, len(self._asides)))
        if call.allocated >= 0:
            self._allocated[owner] = self._allocated.get(owner, 0.0) + _allocated() - call.allocated
        try:
            self._look_at(module, owner, output)
        except Exception as error:
            self._failed(error)
        if self._clock is not None:
            self._asides.append((end, self._clock.now()))

    def _owner(self, module: nn.Module) -> tuple[int, int] | None:
        if threading.get_ident() != self._thread or _in_backward() != -1:
            return None
        return self._rows.get(id(module))

    def _look_at(self, module: nn.Module, owner: tuple[int, int], output: Any) -> None:
        first = True
        for _, tensor in named_tensors(output):
            if tensor.is_meta or tensor.is_sparse or _is_transformed(tensor):
                continue
            self._bytes[owner] = self._bytes.get(owner, 0.0) + tensor.numel() * tensor.element_size()
            if first and tensor.is_floating_point() and tensor.numel():
                first = False
                self._slots.setdefault(owner, []).append(self._slot_of(module, tensor))

    def _slot_of(self, module: nn.Module, tensor: Tensor) -> int:
        known = self._looked_at.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == tensor._version:
            return known[2]
        slot = len(self._numbers)
        with aside():
            self._numbers += _statistics(local_part(tensor.detach()), _unit_dimension(module, tensor))
        self._looked_at[id(tensor)] = (weakref.ref(tensor), tensor._version, slot)
        return slot

    # ---- results

    def _resolved(self) -> list[float]:
        if self._numbers:
            self._values = values_of(self._numbers)
            self._numbers = []
        return getattr(self, "_values", [])

    def _durations(self) -> dict[tuple[int, int], float]:
        """Owner -> nanoseconds of all its calls, without what was computed beside them."""
        clock = self._clock
        found: dict[tuple[int, int], float] = {}
        if clock is None or not self._times:
            return found
        clock.settle()
        before = [0.0]
        for begin, end in self._asides:
            before.append(before[-1] + clock.between(begin, end))
        for owner, begin, end, first, last in self._times:
            took = clock.between(begin, end) - (before[last] - before[first])
            found[owner] = found.get(owner, 0.0) + max(took, 0.0)
        return found


def _statistics(tensor: Tensor, unit: int | None) -> list[Tensor]:
    """Mean, standard deviation, share of zeros, share of channels that are 0 throughout; each a single number."""
    if tensor.numel() > MOST_ELEMENTS and tensor.dim():
        examples = max(1, MOST_ELEMENTS * tensor.shape[0] // tensor.numel())
        tensor = tensor[:examples]
    if tensor.numel() > MOST_ELEMENTS:
        tensor = tensor.reshape(-1)[:MOST_ELEMENTS]
        unit = None
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    mean = tensor.mean()
    centred = torch.linalg.vector_norm(tensor - mean)
    # As numbers 1 and 0: comparing and counting truth values takes three times as long.
    there = tensor.sign().abs_()
    if unit is None or there.dim() < 2:
        count, dead = there.sum(), torch.full((), math.nan, device=tensor.device)
    else:
        of_units = there.sum(dim=[dimension for dimension in range(there.dim()) if dimension != unit])
        count, dead = of_units.sum(), (of_units == 0).float().mean()
    return [mean, centred / math.sqrt(tensor.numel()), 1 - count / tensor.numel(), dead]


def _unit_dimension(module: nn.Module, tensor: Tensor) -> int | None:
    """Which dimension counts units: channels of images, features of rows and of sequences."""
    if tensor.dim() < 2:
        return None
    return 2 if tensor.dim() == 3 and not type(module).__name__.endswith("1d") else 1


def _allocated() -> int:
    """Bytes allocated on the current CUDA device; -1 without one."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.memory_allocated())
    return -1


def _is_compiled(model: nn.Module) -> bool:
    return any(
        isinstance(module, torch._dynamo.OptimizedModule) or module._compiled_call_impl is not None
        for module in model.modules()
    )


def _cheap_clock(models: Sequence[ModuleTable]) -> WallClock | CudaClock | None:
    """A clock that makes nothing wait, where there is one for all the models."""
    clocks = [clock_of(table.model) for table in models]
    if clocks and all(isinstance(clock, WallClock) and not clock.waits for clock in clocks):
        return clocks[0]
    devices = {clock.device for clock in clocks if isinstance(clock, CudaClock)}
    return clocks[0] if len(devices) == 1 and all(isinstance(clock, CudaClock) for clock in clocks) else None
