"""A model with what importers get wrong: repeated calls, a write through a view, several results, a tied parameter."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.conv(x))


class Net(nn.Module):
    """`blocks.0` runs twice, `norm` three times, `unused` never."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        for block in self.blocks:
            x = self.norm(block(x))
        x = self.norm(self.blocks[0](x))
        flat = x.flatten(1)
        flat[:, :2].mul_(0.5)
        best, _ = flat.max(1)
        return self.head(x.mean((2, 3))), best


CALLS = [
    ("", -1),
    ("stem", 0),
    ("blocks.0", 0),
    ("blocks.0.conv", 2),
    ("blocks.0.act", 2),
    ("norm", 0),
    ("blocks.1", 0),
    ("blocks.1.conv", 6),
    ("blocks.1.act", 6),
    ("norm", 0),
    ("blocks.0", 0),
    ("blocks.0.conv", 10),
    ("blocks.0.act", 10),
    ("norm", 0),
    ("head", 0),
]
"""(path, number of the call around it) of every module call, in order."""


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()
