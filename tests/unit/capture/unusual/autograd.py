"""Models that differentiate within their forward pass, or steer how they are differentiated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils import checkpoint as checkpointing

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def backward_inside_the_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                probe = x.detach().clone().requires_grad_()
                self.a(probe).square().sum().backward(inputs=[probe])
            assert probe.grad is not None
            return self.b(x + 0.1 * probe.grad.sign())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def gradient_penalty() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            score = self.b(self.a(x).tanh()).sum()
            (gradient,) = torch.autograd.grad(score, x, create_graph=True)
            return score + (gradient.norm(dim=1) - 1).square().mean()

    return Model(), x(), {}


@unusual
def straight_through_estimator() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            soft = self.a(x).softmax(-1)
            hard = F.one_hot(soft.argmax(-1), 4).to(soft)
            return self.b(hard + soft - soft.detach())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def function_with_its_own_forward_mode_and_several_outputs() -> Case:
    class SplitAndScale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor, factor: float) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
            low, high = value.clamp(max=0), value.clamp(min=0)
            mask = value > 0
            ctx.mark_non_differentiable(mask)
            ctx.factor = factor
            return low * factor, high, mask

        @staticmethod
        def backward(ctx: Any, low: Tensor, high: Tensor, _: Any) -> tuple[Tensor, None]:  # type: ignore[override]
            return low * ctx.factor + high, None

    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:  # type: ignore[override]
            ctx.mark_dirty(value)
            return value.mul_(2)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
            return gradient * 2

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            low, high, mask = SplitAndScale.apply(self.a(x), 0.1)
            return torch.where(mask, InPlace.apply(high.clone()), low)  # type: ignore[no-any-return, no-untyped-call]

    return Model(), x(), {}


@unusual
def reentrant_checkpoints_in_each_other() -> Case:
    class Model(Two):
        def inner(self, x: Tensor) -> Tensor:
            return checkpointing.checkpoint(self.a, x, use_reentrant=False)  # type: ignore[no-any-return]

        def forward(self, x: Tensor) -> Tensor:
            y = checkpointing.checkpoint(lambda value: self.b(self.inner(value)), x, use_reentrant=False)
            return y * 2  # type: ignore[no-any-return]

    return Model(), (torch.randn(3, 4, requires_grad=True),), {}


@unusual
def saved_tensors_are_packed() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
                return self.b(self.a(x).tanh())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def forward_mode_and_jacobian() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            value, tangent = torch.func.jvp(lambda v: self.a(v).sin(), (x,), (torch.ones_like(x),))
            jacobian = torch.func.jacrev(lambda v: self.b(v).sum())(x)
            each = torch.func.vmap(torch.func.grad(lambda v: self.a(v).square().sum()))(x)
            return value + tangent + jacobian + each  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def inference_mode_and_gradients_alternate() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.inference_mode():
                weights = self.a(x).softmax(-1)
            weights = weights.clone()
            with torch.set_grad_enabled(False):
                bias = self.b(x)
                with torch.enable_grad():
                    y = self.a(x)
            return y * weights + bias  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def autocast_on_and_off() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                y = self.a(x)
                with torch.autocast("cpu", enabled=False):
                    z = self.b(y.float())
                y = self.a(z)
            return y.float() + z  # type: ignore[no-any-return]

    return Model(), x(), {}
