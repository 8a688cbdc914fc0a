"""Models whose modules are replaced, shared, hooked, bypassed and made elsewhere."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import types
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def forward_replaced_on_the_instance() -> Case:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    old = model[0].forward
    model[0].forward = types.MethodType(lambda self, x: old(x) * 2, model[0])
    return model, x(), {}


@unusual
def call_overridden() -> Case:
    class Counted(nn.Linear):
        def __call__(self, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return super().__call__(value, *args, **kwargs) + 1  # type: ignore[no-any-return]

    class Bypassing(nn.Linear):
        def __call__(self, value: Tensor) -> Tensor:
            return self.forward(value) * 2

    return nn.Sequential(Counted(4, 4), Bypassing(4, 4)), x(), {}


@unusual
def partial_methods_and_static_functions() -> Case:
    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.steps = [functools.partial(self.scaled, by=2.0), self.a.forward, F.relu, torch.Tensor.tanh]

        @staticmethod
        def scaled(value: Tensor, by: float) -> Tensor:
            return value * by

        def forward(self, x: Tensor) -> Tensor:
            return functools.reduce(lambda value, step: step(value), self.steps, x)

    return Model(), x(), {}


@unusual
def module_deleted_and_another_put_in() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            kept = self.b
            del self.b
            try:
                self.c = nn.Identity()
                return self.c(kept(x))
            finally:
                del self.c
                self.b = kept

    return Model(), x(), {}


@unusual
def module_hidden_in_a_closure_and_in_a_list() -> Case:
    hidden = nn.Linear(4, 4)

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.plain = [nn.Linear(4, 4)]

        def forward(self, x: Tensor) -> Tensor:
            return hidden(self.plain[0](self.a(x)))

    return Model(), x(), {}


@unusual
def module_that_holds_its_parent() -> Case:
    class Child(nn.Module):
        def __init__(self, parent: nn.Module) -> None:
            super().__init__()
            self.parents = [parent]

        def forward(self, x: Tensor) -> Tensor:
            return self.parents[0].a(x)  # type: ignore[no-any-return, operator]

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.child = Child(self)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.child(self.a(x)))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def shared_under_two_parents_and_called_in_both() -> Case:
    shared = nn.Linear(4, 4)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = nn.Sequential(shared, nn.ReLU())
            self.right = nn.Sequential(nn.Tanh(), shared)

        def forward(self, x: Tensor) -> Tensor:
            return self.left(x) + self.right(x) + shared(x)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def modules_as_keys_and_iterators() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("even", "odd")})
            self.order = nn.ParameterDict({"even": nn.Parameter(torch.ones(4)), "odd": nn.Parameter(torch.zeros(4))})

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            names = itertools.cycle(self.experts)
            found: dict[str, Tensor] = collections.OrderedDict()
            for row, name in zip(x, names, strict=False):
                found[name] = found.get(name, 0) + self.experts[name](row) * self.order[name]
            return found

    return Model(), x(), {}


@unusual
def switches_to_evaluation_inside() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))

        def forward(self, x: Tensor) -> Tensor:
            trained = self.net(x)
            self.net.eval()
            try:
                with torch.no_grad():
                    target = self.net(x)
            finally:
                self.net.train()
            return F.mse_loss(trained, target)

    return Model().train(), x(), {}


@unusual
def moving_average_teacher_inside() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = nn.Linear(4, 4)
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                for mine, theirs in zip(self.teacher.buffers(), self.student.buffers(), strict=True):
                    mine.lerp_(theirs, 0.1)
                target = self.teacher(x).softmax(-1)
            return -(target * self.student(x).log_softmax(-1)).sum(-1).mean()

    return Model(), x(), {}


@unusual
def hooks_that_replace_run_and_remove_themselves() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            kept: list[Tensor] = []

            def once(module: nn.Module, args: Any, output: Tensor) -> Tensor:
                handle.remove()
                kept.append(output)
                return output * 2

            handle = self.a.register_forward_hook(once)
            return self.b(self.a(self.a(x))) + kept[0]

    return Model(), x(), {}


@unusual
def feature_extractor_by_hooks() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
            self.features: dict[str, Tensor] = {}
            for name, layer in self.body.named_children():
                layer.register_forward_hook(functools.partial(self.keep, name))

        def keep(self, name: str, module: nn.Module, args: Any, output: Tensor) -> None:
            self.features[name] = output

        def forward(self, x: Tensor) -> list[Tensor]:
            self.features.clear()
            self.body(x)
            return list(self.features.values())

    return Model(), x(), {}


@unusual
def synchronised_batch_norm_in_evaluation() -> Case:
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))
    return model.eval(), (torch.randn(2, 3, 4, 4),), {}


@unusual
def replaced_state_and_stateless_call() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            fast = {name: value - 0.1 * torch.ones_like(value) for name, value in self.a.named_parameters()}
            return torch.func.functional_call(self.a, fast, (self.b(x),))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def parametrized_with_cache_and_buffers_that_are_none() -> Case:
    class Symmetric(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.triu() + weight.triu(1).T

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4, bias=False)
            nn.utils.parametrize.register_parametrization(self.layer, "weight", Symmetric())
            self.register_buffer("nothing", None)
            self.register_parameter("missing", None)

        def forward(self, x: Tensor) -> Tensor:
            with nn.utils.parametrize.cached():
                return self.layer(self.layer(x))  # type: ignore[no-any-return]

    return Model(), x(), {}
