"""A log directory written by StructureWriter from real models: ``python -m tests.support.fresh_records FOLDER``."""

from __future__ import annotations

import sys

import torch
from torch import nn

from tb_plugin_structure import StructureWriter


def encoder(layers: int, width: int, heads: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Linear(3, width), nn.TransformerEncoder(layer, layers, enable_nested_tensor=False))


def main(folder: str) -> None:
    torch.manual_seed(0)
    teacher, student = encoder(4, 16, 4), encoder(2, 16, 2)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    with StructureWriter(folder) as writer:
        for step in range(4):
            values = torch.randn(2, 5, 3)
            optimizer.zero_grad()
            with writer.record_step({"teacher": teacher, "student": student}, step=step, optimizer=optimizer, every=2):
                with torch.no_grad():
                    target = teacher(values)
                loss = nn.functional.mse_loss(student(values), target)
                loss.backward()
            optimizer.step()
        writer.add_plan("teacher", "student", policy="uniform")


if __name__ == "__main__":
    main(sys.argv[1])
