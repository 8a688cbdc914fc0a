"""A training loop of one's own with the monitor: scalars, histograms, and now and then a recorded step.

    python examples/monitor_loop.py --logdir runs/monitor --steps 200
    tensorboard --logdir runs/monitor

The teacher is a fixed network; the student learns to imitate it. It takes some seconds.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from tb_plugin_structure import StructureMonitor, StructureWriter


def network(width: int, layers: int) -> nn.Module:
    """[N, 10] -> [N, 5], blocks named "blocks.0", "blocks.1", ..."""
    model = nn.Sequential()
    model.add_module("stem", nn.Linear(10, width))
    blocks = [nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()) for _ in range(layers)]
    model.add_module("blocks", nn.Sequential(*blocks))
    model.add_module("head", nn.Linear(width, 5))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", default="runs/monitor")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--off", action="store_true", help="turn the monitor off: nothing is written")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    teacher = network(64, 4).eval().requires_grad_(False)
    student = network(16, 2)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)

    with StructureWriter(arguments.logdir, enabled=not arguments.off) as writer:
        monitor = StructureMonitor(
            writer,
            {"teacher": teacher, "student": student},
            optimizer=optimizer,
            every=10,
        )
        loss = torch.tensor(0.0)
        for _ in range(arguments.steps):
            values = torch.randn(64, 10)
            with monitor.observe():
                with torch.no_grad():
                    target = teacher(values)
                loss = nn.functional.mse_loss(student(values), target)
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss)
        monitor.add_hyperparameters({"width": 16, "layers": 2, "lr": 1e-2}, {"final_loss": loss.item()})
        print(f"loss {loss.item():.4f} after {arguments.steps} steps; written to {writer.logdir or 'nowhere'}")


if __name__ == "__main__":
    main()
