"""Models that take and give tensors in every kind of container, and that are called in every kind of way."""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import types
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


class Kind(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Frozen:
    value: Tensor
    others: tuple[Tensor, ...] = ()


class Pair(NamedTuple):
    first: Tensor
    second: Any


class Node:
    def __init__(self, value: Tensor) -> None:
        self.value = value
        self.parent: Any = None
        self.children: list[Node] = []


@unusual
def queues_namespaces_and_enumerations() -> Case:
    class Model(Two):
        def forward(self, queue: Any, space: Any, kinds: dict[Any, Tensor], array: Any, flag: Kind) -> Any:
            queue = collections.deque(queue, maxlen=2)
            queue.append(self.a(queue[0]))
            space.found = self.b(space.value) if flag is Kind.LEFT else space.value
            table = collections.defaultdict(list)
            for kind, value in kinds.items():
                table[kind].append(value + torch.from_numpy(array))
            return collections.UserDict({"queue": queue, "space": space, "table": table, "chain": (*queue,)})

    args = ([torch.randn(3, 4)], types.SimpleNamespace(value=torch.randn(3, 4)))
    kinds = {Kind.LEFT: torch.randn(4), Kind.RIGHT: torch.randn(4)}
    return Model(), (*args, kinds), {"array": np.ones(4, np.float32), "flag": Kind.LEFT}


@unusual
def objects_that_refer_to_each_other() -> Case:
    class Model(Two):
        def forward(self, node: Node) -> Node:
            child = Node(self.a(node.value))
            child.parent = node
            node.children.append(child)
            node.children[0].value = self.b(child.value)
            node.children[:] = node.children[-1:]
            return child

    return Model(), (Node(torch.randn(3, 4)),), {}


@unusual
def frozen_and_nested_results() -> Case:
    class Model(Two):
        def forward(self, given: Frozen) -> Any:
            y = self.a(given.value)
            largest = y.max(1)
            return Pair(Frozen(y, (largest.values, largest.indices)), [{"deep": ((y[0],), {"er": Pair(y[1], None)})}])

    return Model(), (Frozen(torch.randn(3, 4)),), {}


@unusual
def tensors_as_keys_and_in_sets() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y, z = self.a(x), self.b(x)
            names = {y: "y", z: "z"}
            return {names[value]: value * 2 for value in (y, z)}, frozenset({y})

    return Model(), x(), {}


@unusual
def results_made_lazily() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y = self.a(x)
            return list(map(self.b, y.split(1))), dict(zip("pq", filter(torch.is_tensor, (y, None, x)), strict=True))

    return Model(), x(), {}


@unusual
def memoised_dispatched_and_in_context() -> Case:
    scale: contextvars.ContextVar[float] = contextvars.ContextVar("scale", default=1.0)

    @functools.singledispatch
    def widen(value: Any) -> Any:
        return value

    @widen.register
    def _(value: torch.Tensor) -> Any:
        return value.repeat(1, 2)

    class Model(Two):
        @functools.lru_cache(maxsize=4)  # noqa: B019
        def table(self, size: int) -> Tensor:
            return self.a.weight.detach()[:size].exp()

        def forward(self, x: Tensor) -> Any:
            token = scale.set(2.0)
            try:
                y = self.b(x * scale.get())
            finally:
                scale.reset(token)
            return widen(y)[:, :4] @ self.table(4) + self.table(4)[0]

    return Model(), x(), {}


@unusual
def inherited_forwards_and_calls() -> Case:
    class Base(Two):
        def forward(self, x: Tensor, *, twice: bool = False) -> Any:
            y = self.a(x)
            return self.a(y) if twice else y

    class Logged:
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs) * 1.5  # type: ignore[misc]

    class Model(Logged, Base):  # type: ignore[misc]
        def forward(self, x: Tensor, *, twice: bool = True) -> Any:
            return self.b(super().forward(x, twice=twice))

    return nn.Sequential(Model(), nn.ReLU()), x(), {}


@unusual
def checkpoint_that_keeps_some_products() -> Case:
    def policy(context: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        keep = function is torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            contexts = functools.partial(create_selective_checkpoint_contexts, policy)
            y = checkpoint(lambda v: self.b(self.a(v).tanh()), x, use_reentrant=False, context_fn=contexts)
            with torch.autograd.graph.save_on_cpu():
                return self.b(y.sigmoid())

    return Model(), (torch.randn(3, 4, requires_grad=True),), {}


class Scale(torch.autograd.Function):
    """With its context set up apart, a rule for vmap, and an output that is its input."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, factor: float) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return value * factor, value.sign()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Any:  # type: ignore[override]
        return gradient * ctx.factor, None


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, note: str) -> tuple[Tensor, str, None]:  # type: ignore[override]
        return value, note, None

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> Any:  # type: ignore[override]
        return gradient, None


@unusual
def functions_that_hand_on_and_that_are_mapped() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y, sign = Scale.apply(self.a(x), 2.0)
            same, note, nothing = Same.apply(y, "kept")
            rows = torch.vmap(lambda row: Scale.apply(row, 0.5)[0])(x)
            return self.b(same) * sign + rows * len(note), nothing

    return Model(), x(), {}


@unusual
def hooks_around_everything() -> Case:
    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.a.register_forward_pre_hook(lambda m, a, k: ((a[0] * 2,), k), with_kwargs=True)
            self.a.register_full_backward_pre_hook(lambda m, g: None)
            self.b.register_full_backward_hook(lambda m, i, o: None)
            self.b.register_forward_hook(lambda m, a, o: None, always_call=True, prepend=True)
            self.register_forward_hook(lambda m, a, o: {"wrapped": o})

        def forward(self, x: Tensor) -> Any:
            return self.b(self.a(x))

    return Model(), (torch.randn(3, 4, requires_grad=True),), {}
