"""Models that use more of Python than a sequence of calls."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@dataclass
class State:
    hidden: Tensor
    history: list[Tensor] = field(default_factory=list)


@unusual
def state_object_mutated_by_children() -> Case:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(4, 4)

        def forward(self, x: Tensor, state: State) -> None:
            state.hidden = self.cell(x, state.hidden)
            state.history.append(state.hidden)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = Step()

        def forward(self, x: Tensor) -> State:
            state = State(torch.zeros(3, 4))
            for _ in range(3):
                self.step(x, state)
            return state

    return Model(), x(), {}


@unusual
def mutual_recursion() -> Case:
    class Model(Two):
        def even(self, x: Tensor, depth: int) -> Tensor:
            return x if depth == 0 else self.odd(self.a(x), depth - 1)

        def odd(self, x: Tensor, depth: int) -> Tensor:
            return x if depth == 0 else self.even(self.b(x), depth - 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.even(x, 5)

    return Model(), x(), {}


@unusual
def generators_that_send_and_yield_from() -> Case:
    class Model(Two):
        def inner(self) -> Iterator[Any]:
            value = yield
            while True:
                value = yield self.a(value)

        def outer(self) -> Iterator[Any]:
            yield from self.inner()

        def forward(self, x: Tensor) -> Tensor:
            steps: Any = self.outer()
            next(steps)
            for _ in range(3):
                x = steps.send(x)
            steps.close()
            return self.b(x)

    return Model(), x(), {}


@unusual
def coroutines_that_interleave() -> Case:
    class Model(Two):
        async def branch(self, layer: nn.Module, x: Tensor) -> Tensor:
            for _ in range(2):
                x = layer(x)
                await asyncio.sleep(0)
            return x

        async def both(self, x: Tensor) -> list[Tensor]:
            return await asyncio.gather(self.branch(self.a, x), self.branch(self.b, x))

        def forward(self, x: Tensor) -> Tensor:
            loop = asyncio.new_event_loop()
            try:
                left, right = loop.run_until_complete(self.both(x))
            finally:
                loop.close()
            return left + right

    return Model(), x(), {}


@unusual
def exceptions_as_control_flow() -> Case:
    class Found(Exception):
        pass

    class Searching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.layer(x)
            raise Found(x)

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.search = Searching()

        def forward(self, x: Tensor) -> Tensor:
            with contextlib.suppress(RuntimeError):
                self.a(x[:, :2])
            try:
                self.search(self.a(x))
            except Found as found:
                x = found.args[0]
            return self.b(x)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def match_walrus_and_comprehensions() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            match x.shape:
                case (rows, 4) if (y := self.a(x)).shape[0] == rows:
                    x = y
                case _:
                    x = self.b(x)
            return torch.stack([value for row in x for value in (row.relu(), row.tanh()) if value.sum() == value.sum()])

    return Model(), x(), {}


@unusual
def protocols_and_properties_that_compute() -> Case:
    class Scaled(Protocol):
        @property
        def scale(self) -> Tensor: ...

    class Model(Two):
        @property
        def scale(self) -> Tensor:
            return self.a.weight.norm()

        @functools.cached_property
        def basis(self) -> Tensor:
            return torch.eye(4) * 2

        def forward(self, x: Tensor) -> Tensor:
            mine: Scaled = self
            return x @ self.basis * mine.scale + self.basis[0]

    return Model(), x(), {}


@unusual
def numbers_that_leave_and_come_back() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            size = int(y.abs().sum().item()) % 2 + 1
            table = torch.tensor(y.tolist())
            return self.b(table[:size]) + float(np.asarray(y.detach()).mean())

    return Model(), x(), {}
