"""Models whose inputs, outputs and parameters come in containers; as small as they get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tests.unit.capture.hard.registry import Case, Two, hard, x


class Pair(NamedTuple):
    left: Tensor
    right: dict[str, Tensor]


@dataclass
class Batch:
    values: Tensor
    more: Pair
    flag: bool = True
    label: str = "x"


@hard
def dataclass_in_and_named_tuple_out() -> Case:
    class Model(Two):
        def forward(self, batch: Batch, *, scale: float, nothing: None = None) -> Pair:
            return Pair(self.a(batch.values) * scale, {"b": self.b(batch.more.left), "c": batch.more.right["z"]})

    value = torch.randn(3, 4)
    return Model(), (Batch(value, Pair(value * 2, {"z": value * 3})),), {"scale": 0.5}


class Holder:
    """A plain object with a property that must not be called."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    @property
    def trap(self) -> Tensor:
        raise AssertionError("a property was read")


@hard
def plain_objects() -> Case:
    class Model(Two):
        def forward(self, holder: Holder) -> Holder:
            return Holder(self.a(holder.value))

    return Model(), (Holder(torch.randn(3, 4)),), {}


@hard
def no_inputs_and_scalar_outputs() -> Case:
    class Model(Two):
        def forward(self) -> tuple[Tensor, int, None, str]:
            return self.a(torch.ones(2, 4)).sum(), 3, None, "done"

    return Model(), (), {}


@hard
def parameters_in_dictionaries_and_lists() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterDict({"w": nn.Parameter(torch.randn(4, 4)), "v": nn.Parameter(torch.randn(4))})
            self.rows = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(3)])
            self.parts = nn.ModuleDict({"relu": nn.ReLU(), "x.y".replace(".", "_"): nn.Linear(4, 4)})

        def forward(self, x: Tensor) -> Tensor:
            x = x @ self.weights["w"] + self.weights["v"]
            for row in self.rows:
                x = x * row
            for part in self.parts.values():
                x = part(x)
            return x

    return Model(), x(), {}


@hard
def tied_and_shared() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 4)
            self.layer = nn.Linear(4, 4)
            self.same = self.layer
            self.out = nn.Linear(4, 9, bias=False)
            self.out.weight = self.embedding.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.same(self.layer(self.embedding(ids))))

    return Model(), (torch.randint(0, 9, (2, 3)),), {}
