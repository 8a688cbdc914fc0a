"""What recording a structure costs, beside a plain forward pass and TensorBoard's own `add_graph`.

    python benchmarks/first_light.py

With one thread unless asked otherwise. Recording takes the same time whatever the number of threads, so its ratio to a
pass that several threads make shorter is larger.

All ways are measured in one run, in turn, round after round, so that a busy machine disturbs them alike; the table
shows medians of elapsed time, and of processor time, which a busy machine disturbs less. "Do-nothing mode" is a
`TorchDispatchMode` that only passes calls on: what observing a pass costs before anything is recorded. Where
`add_graph` cannot trace the model itself, it gets a wrapper that returns the logits alone. Before each of them a plain
pass runs untimed, so that none pays for memory that the one before it gave back to the system.

`add_graph` has rounds of its own after the others, beside plain passes of its own: once it has run, the allocator gives
the memory of activations back to the system after each pass, and every pass that follows, of whatever kind, takes
thousands of page faults to get it again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.tensorboard import SummaryWriter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from models.resnet import resnet50

from tb_plugin_structure import StructureWriter


class DoNothing(TorchDispatchMode):
    """Sees every kernel and passes it on."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class LogitsOnly(nn.Module):
    """What `add_graph` can trace: positional tensors in, one tensor out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, use_cache=False).logits


@dataclass
class Case:
    """A model, its input, and what `add_graph` is given in its place when it fails on the model."""

    name: str
    model: nn.Module
    inputs: tuple[Tensor, ...]
    traceable: nn.Module | None = None


@dataclass
class Way:
    """One way to run the model; `run` gets a fresh directory and may write an event file there."""

    name: str
    run: Callable[[Path], object]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    event_bytes: int = 0
    note: str = ""
    plain: Way | None = None
    """What this is measured beside; None for a plain pass itself."""

    @property
    def baseline(self) -> Way:
        return self.plain or self


def cases() -> list[Case]:
    from transformers import GPT2Config, GPT2LMHeadModel

    gpt2 = GPT2LMHeadModel(GPT2Config()).eval()
    return [
        Case("ResNet-50, 1 image of 224x224", resnet50().eval(), (torch.randn(1, 3, 224, 224),)),
        Case("GPT-2 small, 1 x 128 tokens", gpt2, (torch.randint(50257, (1, 128)),), LogitsOnly(gpt2).eval()),
    ]


def write_graph(logdir: Path, model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    # The tracer warns about every Python branch, and TensorBoard prints what fails before it raises.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), SummaryWriter(str(logdir)) as writer:
        warnings.simplefilter("ignore")
        writer.add_graph(model, inputs)


def write_structure(logdir: Path, model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    with StructureWriter(logdir) as writer:
        writer.add_structure("model", model, inputs)


def ways_of_observing(case: Case) -> list[Way]:
    """A plain pass, and what observes one."""

    def observed() -> None:
        with DoNothing():
            case.model(*case.inputs)

    plain = plain_way(case)
    return [
        plain,
        Way("do-nothing mode", lambda _: observed(), plain=plain),
        Way("add_structure", lambda logdir: write_structure(logdir, case.model, case.inputs), plain=plain),
    ]


def ways_of_tracing(case: Case) -> list[Way]:
    """A plain pass and `add_graph`; finds out whether it can take the model as it is."""
    traced, note = case.model, ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            write_graph(Path(folder), case.model, case.inputs)
    except Exception as error:
        if case.traceable is None:
            raise
        traced, note = case.traceable, f"through a wrapper; the model itself fails: {type(error).__name__}"
    plain = plain_way(case)
    return [plain, Way("add_graph", lambda logdir: write_graph(logdir, traced, case.inputs), note=note, plain=plain)]


def plain_way(case: Case) -> Way:
    return Way("plain forward", lambda _: case.model(*case.inputs))


def measure(ways: list[Way], rounds: int) -> None:
    """Run all ways in turn, once to warm up, then `rounds` times."""
    for round_number in range(rounds + 1):
        for way in ways:
            with tempfile.TemporaryDirectory() as folder:
                ways[0].run(Path(folder))
                begin, cpu_begin = time.perf_counter(), time.process_time()
                way.run(Path(folder))
                seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
                way.event_bytes = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
            if round_number:
                way.seconds.append(seconds)
                way.cpu_seconds.append(cpu_seconds)


def table(case: Case, observing: list[Way], tracing: list[Way]) -> str:
    """Medians, ratios to the plain forward passes of the same rounds, and bytes in the event file."""
    lines = [f"\n{case.name}", f"  {'':<16} {'median':>10} {'x forward':>10} {'CPU x forward':>14} {'event file':>13}"]
    for way in (*observing, *tracing[1:]):
        median, median_cpu = statistics.median(way.seconds), statistics.median(way.cpu_seconds)
        plain, plain_cpu = statistics.median(way.baseline.seconds), statistics.median(way.baseline.cpu_seconds)
        size = f"{way.event_bytes:>11,} B" if way.event_bytes else f"{'-':>13}"
        ratios = f"{median / plain:>9.2f}x {median_cpu / plain_cpu:>13.2f}x"
        lines.append(f"  {way.name:<16} {1000 * median:>7.1f} ms {ratios} {size}  {way.note}".rstrip())
    graph, structure = tracing[-1].event_bytes, observing[-1].event_bytes
    lines.append(f"  add_structure writes 1/{graph / structure:.1f} of the bytes of add_graph")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="timed rounds, after one to warm up")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads; recording itself takes one")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    print(f"torch {torch.__version__}, CPU, {arguments.threads} threads, medians of {arguments.rounds} rounds")
    with torch.no_grad():
        for case in cases():
            observing = ways_of_observing(case)
            measure(observing, arguments.rounds)
            tracing = ways_of_tracing(case)
            measure(tracing, arguments.rounds)
            print(table(case, observing, tracing), flush=True)


if __name__ == "__main__":
    main()
