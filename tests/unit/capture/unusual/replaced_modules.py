"""Models whose modules change, hide, or are called in other ways while they run."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def layers_replaced_between_two_calls() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            kept = self.a
            self.a = nn.Linear(4, 4)
            self.a.load_state_dict(kept.state_dict())
            try:
                return self.b(self.a(y))
            finally:
                self.a = kept

    return Model(), x(), {}


@unusual
def layers_replaced_one_after_another_on_the_first_call() -> Case:
    class Attention(nn.Module):
        def __init__(self, kind: type[nn.Module]) -> None:
            super().__init__()
            self.inner = kind(4, 4)

        def forward(self, x: Tensor) -> Any:
            return self.inner(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Attention(nn.Linear) for _ in range(4))

        def forward(self, x: Tensor) -> Any:
            for layer in self.layers:
                kept = layer.inner.state_dict()
                layer.inner = nn.Linear(4, 4)  # the one before is freed, and its address may be used again
                layer.inner.load_state_dict(kept)
                x = layer(x)
            return x

    return Model(), x(), {}


@unusual
def hooks_registered_by_hooks() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            def before(module: nn.Module, args: Any) -> Any:
                inner = module.register_forward_hook(lambda m, a, o: (inner.remove(), o + 1)[1])
                return (args[0] * 2,)

            handle = self.a.register_forward_pre_hook(before)
            everywhere = register_module_forward_hook(lambda m, a, o: o * 1.5 if m is self.b else None)
            try:
                return self.b(self.a(x))
            finally:
                handle.remove()
                everywhere.remove()

    return Model(), x(), {}


@unusual
def copied_within_the_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            twin = copy.deepcopy(self.a)
            with torch.no_grad():
                twin.weight.mul_(2)
            return self.b(twin(self.a(x)))

    return Model(), x(), {}


@unusual
def attributes_by_getattr_and_slots() -> Case:
    class Config:
        __slots__ = ("bias", "scale")

        def __init__(self) -> None:
            self.scale, self.bias = torch.ones(4) * 2, torch.zeros(4)

    class Proxy(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.wrapped = inner

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("wrapped"), name)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.wrapped(*args, **kwargs)

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.proxy = Proxy(nn.Linear(4, 4))
            self.config = Config()

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(self.proxy(x), self.proxy.weight) * self.config.scale + self.config.bias

    return Model(), x(), {}


@unusual
def slots_in_and_out() -> Case:
    class Carry:
        __slots__ = ("mask", "value")

        def __init__(self, value: Tensor, mask: Tensor | None = None) -> None:
            self.value, self.mask = value, mask

    class Model(Two):
        def forward(self, carry: Any) -> Any:
            return Carry(self.b(self.a(carry.value)) * carry.mask, carry.mask)

    return Model(), (Carry(torch.randn(3, 4), torch.ones(3, 1)),), {}


@unusual
def forward_is_a_partial_and_a_lambda() -> Case:
    model = Two()

    def run(self: Any, x: Tensor, *, scale: float) -> Tensor:
        return self.b(self.a(x)) * scale

    model.forward = functools.partial(run, model, scale=3.0)
    model.b.forward = lambda v, old=model.b.forward: old(v).relu()
    return model, x(), {}


@unusual
def tied_across_dictionaries() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shared = nn.Linear(4, 4)
            self.left = nn.ModuleDict({"x": shared, "y": nn.Linear(4, 4)})
            self.right = nn.ModuleDict({"y": shared, "x": nn.Linear(4, 4)})
            self.right["x"].weight = self.left["y"].weight
            self.embed = nn.Embedding(4, 4)
            self.embed.weight = shared.weight

        def forward(self, x: Tensor) -> Any:
            for key in ("x", "y"):
                x = self.right[key](self.left[key](x))
            return x @ self.embed.weight

    return Model(), x(), {}


@unusual
def modules_as_class_attributes_and_globals() -> Case:
    class Model(Two):
        shared = nn.Linear(4, 4)
        table: ClassVar[dict[str, nn.Module]] = {"act": nn.Softplus()}

        def forward(self, x: Tensor) -> Any:
            return self.table["act"](type(self).shared(self.a(x)))

    return Model(), x(), {}


@unusual
def lazy_layers_that_become_real_in_the_pass() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.second = nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.LazyLinear(2)

        def forward(self, x: Tensor) -> Any:
            return self.second(self.norm(self.first(x)))

    return Model(), x(), {}


@unusual
def transformer_generates_with_a_growing_cache() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
            self.head = nn.Linear(4, 7)
            self.past: list[Tensor] = []

        def forward(self, ids: Tensor) -> Any:
            self.past.clear()
            tokens = ids
            for _ in range(3):
                self.past.append(self.embed(tokens[:, -1:]))
                known = torch.cat(self.past, 1)
                y, _ = self.attend(known[:, -1:], known, known)
                tokens = torch.cat([tokens, self.head(y).argmax(-1)], 1)
            return tokens, y

    return Model(), (torch.tensor([[1, 2]]),), {}


@unusual
def generator_that_suspends_in_the_middle_of_modules() -> Case:
    class Stage(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p, self.q = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Any:
            x = self.p(x)
            yield x
            yield self.q(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Stage(), Stage()

        def forward(self, x: Tensor) -> Any:
            return torch.stack([a * b for a, b in zip(self.one(x), self.two(x), strict=True)])

    return Model(), x(), {}


@unusual
def threads_joined_and_async_generators() -> Case:
    class Model(Two):
        async def stream(self, x: Tensor) -> AsyncIterator[Tensor]:
            for row in x.split(1):
                await asyncio.sleep(0)
                yield self.a(row)

        async def gather(self, x: Tensor) -> list[Tensor]:
            return [self.b(y) async for y in self.stream(x)]

        def forward(self, x: Tensor) -> Any:
            done: list[Tensor] = []
            thread = threading.Thread(target=lambda: done.append(torch.ones(3, 4) @ torch.ones(4, 4)))
            thread.start()
            thread.join()
            loop = asyncio.new_event_loop()
            try:
                rows = loop.run_until_complete(self.gather(x))
            finally:
                loop.close()
            return torch.cat(rows) + done[0]

    return Model(), x(), {}


@unusual
def garbage_collected_and_weakly_held() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            cycle: list[Any] = [self.a(x)]
            cycle.append(cycle)
            held = weakref.ref(cycle[0])
            y = cycle[0] * 2
            del cycle
            gc.collect()
            z = self.b(y)
            return z + (0.0 if held() is None else held().sum())

    return Model(), x(), {}
