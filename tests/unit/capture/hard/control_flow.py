"""Models that branch, loop, recurse and yield; as small as they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tests.unit.capture.hard.registry import Case, Two, hard, x


@hard
def generator_of_outputs() -> Case:
    class Model(Two):
        def steps(self, x: Tensor) -> Iterator[Tensor]:
            for layer in (self.a, self.b, self.a):
                x = layer(x)
                yield x

        def forward(self, x: Tensor) -> list[Tensor]:
            return list(self.steps(x))

    return Model(), x(), {}


@hard
def generator_that_the_caller_drains() -> Case:
    class Inner(Two):
        def forward(self, x: Tensor) -> Iterator[Tensor]:
            yield self.a(x)
            yield self.b(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            return sum(self.inner(x), torch.zeros(()))

    return Model(), x(), {}


@hard
def recursion_over_one_module() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fold = nn.Linear(4, 4)

        def forward(self, x: Tensor, depth: int = 3) -> Tensor:
            return self(self.fold(x), depth - 1) if depth else x

    return Model(), x(), {}


@hard
def tree_recursion() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.join = nn.Bilinear(4, 4, 4)

        def forward(self, tree: Any) -> Tensor:
            return tree if isinstance(tree, Tensor) else self.join(self(tree[0]), self(tree[1]))

    leaf = torch.randn(1, 4)
    return Model(), (((leaf, leaf + 1), (leaf, (leaf, leaf))),), {}


@hard
def layer_drop() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                if torch.rand(()).item() > 0.4:
                    x = layer(x)
            return x * 1

    return Model().train(), x(), {}


@hard
def exception_caught_inside() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            try:
                x = self.a(x)
                x @ torch.ones(5, 5)
            except RuntimeError:
                x = self.b(x)
            return x

    return Model(), x(), {}


@hard
def module_called_through_its_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a.forward(x))

    return Model(), x(), {}


@hard
def context_manager_and_closure() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            def run(layer: nn.Module) -> Callable[[Tensor], Tensor]:
                return lambda value: layer(value).tanh()

            with torch.no_grad():
                y = run(self.a)(x)
            with torch.inference_mode():
                z = run(self.b)(x).clone()
            return y + torch.tensor(z.tolist())

    return Model(), x(), {}


@hard
def conditions_as_operators() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,))
            return self.a(x)

    return Model(), x(), {}


@hard
def loops_as_operators() -> Case:
    from torch._higher_order_ops.while_loop import while_loop

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            _, y = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))
            return self.a(y)

    return Model().requires_grad_(False), x(), {}
