"""What StructureMonitor costs in a distillation step of two ResNet-18: scalars, histograms, pictures, a recorded step.

    python benchmarks/monitor.py [--rounds 8] [--batch 16] [--image 64]

Steps of the four kinds take turns, so that a busy machine slows all alike; processor time is counted. The last line is
the cost at the defaults: scalars on each 100th step, histograms, pictures and a recorded step on each
1,000th.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from tb_plugin_structure import StructureMonitor, StructureWriter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from models.resnet import resnet18

EVERY, RARE = 100, 1_000
STEPS = {
    "nothing": 1,
    "scalars": EVERY,
    "scalars and histograms": RARE,
    "scalars and pictures": RARE,
    "all and a recorded step": RARE,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--image", type=int, default=64)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    teacher, student = resnet18().eval().requires_grad_(False), resnet18()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(arguments.batch, 3, arguments.image, arguments.image)
    took: dict[str, list[float]] = {kind: [] for kind in STEPS}
    plain: list[float] = []

    def step(monitor: StructureMonitor | None) -> float:
        started = time.process_time()
        with monitor.observe() if monitor is not None else torch.enable_grad():
            with torch.no_grad():
                target = teacher(images)
            loss = (student(images) - target).square().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if monitor is not None:
            monitor.step(loss)
        return time.process_time() - started

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        models = {"teacher": teacher, "student": student}
        monitors = {
            kind: stack.enter_context(
                StructureMonitor(
                    stack.enter_context(StructureWriter(Path(folder) / kind)),
                    models,
                    optimizer=optimizer,
                    every=EVERY,
                    histograms_every=RARE if "histograms" in kind or "all" in kind else 0,
                    pictures_every=RARE if "pictures" in kind or "all" in kind else 0,
                    record_every=RARE if "all" in kind else 0,
                )
            )
            for kind in STEPS
        }
        for number in range(arguments.rounds + 1):
            rounds = {"plain": step(None)}
            for kind, at in STEPS.items():
                # The others look at the optimizer too; nothing is due for them at this step.
                for other in monitors.values():
                    other.global_step = 1
                monitors[kind].global_step = 1 if kind == "nothing" else at * (number + 1)
                rounds[kind] = step(monitors[kind])
            if number:  # the first round loads and warms up
                plain.append(rounds.pop("plain"))
                for kind, seconds in rounds.items():
                    took[kind].append(seconds)

    base = statistics.median(plain)
    median = {kind: statistics.median(seconds) for kind, seconds in took.items()}
    print(f"| step | processor time, ms | against a plain step of {1000 * base:.0f} ms |")
    print("| --- | ---: | ---: |")
    for kind, seconds in median.items():
        print(f"| {kind} | {1000 * seconds:.0f} | {seconds / base:.2f} x |")
    extra = {kind: max(seconds - median["nothing"], 0.0) for kind, seconds in median.items()}
    whole = extra["scalars"] * (1 / EVERY - 1 / RARE) + extra["all and a recorded step"] / RARE
    print(f"\nat the defaults: {100 * whole / base:.2f} % of a training step")
    print(f"a step on which nothing is due: {1e6 * idle_seconds():.1f} microseconds")


def idle_seconds(count: int = 10_000) -> float:
    """What `step` and `observe` take when there is nothing to do."""
    with tempfile.TemporaryDirectory() as folder, StructureWriter(folder) as writer:
        monitor = StructureMonitor(writer, {"model": torch.nn.Linear(1, 1)}, every=10 * count, first_step=1)
        started = time.process_time()
        for _ in range(count):
            with monitor.observe():
                pass
            monitor.step()
        return (time.process_time() - started) / count


if __name__ == "__main__":
    main()
