"""Where models with what trips recorders are gathered, by the name of the function that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
HARD: dict[str, Callable[[], Case]] = {}


def hard(make: Callable[[], Case]) -> Callable[[], Case]:
    HARD[make.__name__] = make
    return make


class Two(nn.Module):
    """Two linear layers for subclasses to use."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)


def x() -> tuple[Tensor]:
    return (torch.randn(3, 4),)
