"""Times of modules and operators: medians of warm passes.

Modules are timed by hooks alone. Kernels are timed in passes of their own under a dispatch mode, which makes the passes
slower and each kernel's time slightly longer (what the dispatcher does below the mode is in it); so the times of
operators add up to less than a module's, whose Python they leave out.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from tb_plugin_structure.capture.kernels import facts_of
from tb_plugin_structure.capture.modules import ModuleTable
from tb_plugin_structure.capture.nested import named_arguments
from tb_plugin_structure.capture.repetition import Repetition
from tb_plugin_structure.progress import Progress
from tb_plugin_structure.records.structure import Structure

Array = npt.NDArray[Any]
DEFAULT_PASSES = 5


def passes_asked_for(asked: int | bool) -> int:
    """Number of passes that ``time=`` means.

    Raises:
        ValueError: When it is negative.
        TypeError: When it is no whole number.
    """
    if asked is True:
        return DEFAULT_PASSES
    if not isinstance(asked, int):
        raise TypeError(f"time is {type(asked).__name__}, expected the number of warm passes to time, or True")
    if asked < 0:
        raise ValueError(f"time is {asked}, expected the number of warm passes to time")
    return asked


def measure_times(structure: Structure, repetition: Repetition, passes: int, model: nn.Module) -> None:
    """Fill ``duration_ns`` of module calls, operators and totals.

    Args:
        structure: The record of the pass that `repetition` repeats.
        repetition: The passes.
        passes: How many are timed; the recorded one was the first, so they are warm.
        model: The model without wrappers.
    """
    clock = clock_of(model)
    modules = [_ModuleTimes(model, clock) for _ in range(passes)]
    kernels = [_KernelTimes(clock) for _ in range(passes)]
    with Progress(f"Timing {structure.name}", unit="passes") as progress:
        for at in progress.steps(passes):
            repetition.run(modules[at])
            repetition.run(kernels[at])
    calls = structure.module_calls
    keys = call_keys(structure)
    durations = np.full(calls.rows, np.nan)
    for call, key in enumerate(keys):
        found = [measured.durations[key] for measured in modules if key in measured.durations]
        if len(found) == passes:
            durations[call] = float(np.median(found))
    structure.set_columns("module_calls", {"duration_ns": durations})
    names = structure.kernels.column_texts("name")
    steady = all(measured.names == names for measured in kernels)
    of_operators = np.full(structure.operators.rows, np.nan)
    if steady and len(names):
        starts = structure.operators["kernel_begin"].astype(np.int64)
        sums = [np.add.reduceat(np.array(measured.durations, np.float64), starts) for measured in kernels]
        of_operators = np.median(np.stack(sums), axis=0)
    structure.set_columns("operators", {"duration_ns": of_operators})
    root = [float(value) for value, parent in zip(durations, calls["parent"].tolist(), strict=True) if parent < 0]
    structure.header.totals.duration_ns = int(np.nansum(root))
    note = f"Times are medians of {passes} warm passes ({clock.description})"
    if not steady:
        note += "; those of operators are unknown, as the passes did not run the same kernels"
    elif np.isnan(durations).any():
        note += f"; {int(np.isnan(durations).sum())} calls did not occur in each pass and have none"
    structure.header.notes.append(f"{note}.")


def call_keys(structure: Structure) -> list[tuple[int, int]]:
    """(row of the module, k-th call of it in the pass) of each module call."""
    counts: dict[int, int] = {}
    keys = []
    for module in structure.module_calls["module"].tolist():
        keys.append((module, counts.get(module, 0)))
        counts[module] = counts.get(module, 0) + 1
    return keys


# ---- clocks


class WallClock:
    """The host's clock, after waiting for the devices on which work may still be running."""

    def __init__(self, wait: Callable[[], None] | None, description: str) -> None:
        self._wait = wait
        self.description = description

    def now(self) -> Any:
        if self._wait is not None:
            self._wait()
        return time.perf_counter_ns()

    @property
    def waits(self) -> bool:
        """Whether looking at the clock makes the devices finish first."""
        return self._wait is not None

    def settle(self) -> None:
        """Wait until all that was measured is done."""

    def between(self, begin: Any, end: Any) -> float:
        """Nanoseconds."""
        return float(end - begin)


class CudaClock:
    """Events on the current stream of one CUDA device: nothing waits while the pass runs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.description = f"CUDA events on {device}"

    def now(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def settle(self) -> None:
        torch.cuda.synchronize(self.device)

    def between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) * 1e6  # elapsed_time is in milliseconds


def clock_of(model: nn.Module) -> WallClock | CudaClock:
    """The clock for the devices that a model's tensors are on."""
    devices = {tensor.device for tensor in [*model.parameters(), *model.buffers()]} - {torch.device("cpu")}
    if not devices:
        threads = torch.get_num_threads()
        return WallClock(None, f"wall clock, CPU, {threads} thread{'s' if threads > 1 else ''}")
    if len(devices) == 1 and next(iter(devices)).type == "cuda":
        return CudaClock(next(iter(devices)))

    def wait() -> None:
        for device in devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            else:
                torch.accelerator.synchronize(device)

    return WallClock(wait, f"wall clock, waiting for {', '.join(sorted(map(str, devices)))} around each call")


# ---- what is timed


class _ModuleTimes:
    def __init__(self, model: nn.Module, clock: Any) -> None:
        self._rows = ModuleTable(model).row_of
        self._clock = clock
        self.durations: dict[tuple[int, int], float] = {}

    @contextlib.contextmanager
    def watching(self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
        rows, now, thread = self._rows, self._clock.now, threading.get_ident()
        counts: dict[int, int] = {}
        stack: list[tuple[nn.Module, tuple[int, int], Any]] = []
        marks: list[tuple[tuple[int, int], Any, Any]] = []

        def before(module: nn.Module, _: Any) -> None:
            row = rows.get(id(module))
            if row is None or threading.get_ident() != thread:
                return
            count = counts.get(row, 0)
            counts[row] = count + 1
            stack.append((module, (row, count), now()))

        def after(module: nn.Module, _: Any, __: Any) -> None:
            if stack and stack[-1][0] is module and threading.get_ident() == thread:
                end = now()
                _, key, begin = stack.pop()
                marks.append((key, begin, end))

        handles = [
            register_module_forward_pre_hook(before),
            register_module_forward_hook(after, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
        self._clock.settle()
        self.durations = {key: self._clock.between(begin, end) for key, begin, end in marks}


class _KernelTimes:
    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.names: list[str] = []
        self.durations: list[float] = []

    @contextlib.contextmanager
    def watching(self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
        now, names = self._clock.now, self.names
        marks: list[tuple[Any, Any]] = []

        class TimingMode(TorchDispatchMode):
            supports_higher_order_operators = True

        def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            facts = facts_of(func)
            begin = now()
            result = func(*args, **kwargs) if kwargs else func(*args)
            if not facts.skipped:
                marks.append((begin, now()))
                names.append(facts.name)
            return result

        TimingMode.__torch_dispatch__ = dispatch  # type: ignore[assignment]
        with TimingMode():  # type: ignore[no-untyped-call]
            yield
        self._clock.settle()
        self.durations = [self._clock.between(begin, end) for begin, end in marks]


def reads_values(args: tuple[Any, ...], kwargs: Mapping[str, Any], model: nn.Module) -> bool:
    """Whether a pass computes: neither the model nor its inputs are on the meta device."""
    tensors = [*model.parameters(), *(tensor for _, tensor in named_arguments(args, kwargs))]
    return not any(tensor.is_meta for tensor in tensors)
