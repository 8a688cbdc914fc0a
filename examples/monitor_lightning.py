"""Lightning's Trainer with the monitor as a callback.

pip install lightning
python examples/monitor_lightning.py --logdir runs/lightning
tensorboard --logdir runs/lightning
"""

from __future__ import annotations

import argparse

import lightning
import torch
from torch import Tensor, nn

from tb_plugin_structure.integrations import LightningMonitor


class Distillation(lightning.LightningModule):
    """The student imitates a fixed teacher on random data."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 5)).requires_grad_(False)
        self.student = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5))

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        (values,) = batch
        return nn.functional.mse_loss(self.student(values), self.teacher(values))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.student.parameters(), lr=1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logdir", default="runs/lightning")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(64 * arguments.steps, 10))
    # Attributes of the LightningModule; without them the whole module is recorded as "model".
    monitor = LightningMonitor(arguments.logdir, {"teacher": "teacher", "student": "student"}, every=10)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[monitor]
    )
    trainer.fit(Distillation(), torch.utils.data.DataLoader(data, batch_size=64))


if __name__ == "__main__":
    main()
