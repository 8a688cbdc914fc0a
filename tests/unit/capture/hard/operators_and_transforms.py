"""Models with operators of their own, functorch transforms and checkpoints; as small as they get."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.unit.capture.hard.registry import Case, Two, hard, x


@torch.library.custom_op("tbps_hard::scaled", mutates_args=())
def scaled(value: Tensor, factor: float) -> Tensor:
    return value * factor


@scaled.register_fake
def _(value: Tensor, factor: float) -> Tensor:
    return torch.empty_like(value)


scaled.register_autograd(
    lambda ctx, gradient: (gradient * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


@torch.library.custom_op("tbps_hard::shift_", mutates_args=("value",))
def shift_(value: Tensor, by: float) -> None:
    value.add_(by)


@hard
def library_operators() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = scaled(self.a(x), 2.0)
            z = y.detach().clone()
            shift_(z, 1.0)
            return torch.ops.aten.relu.default(y) + z + torch.ops.tbps_hard.scaled(y, 0.5)

    return Model(), x(), {}


class Clip(torch.autograd.Function):
    """Computes with numpy and returns two tensors, one of them without a gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, low: float) -> tuple[Tensor, Tensor]:
        kept = value.detach().numpy() > low
        mask = torch.from_numpy(kept)
        ctx.save_for_backward(mask)
        ctx.mark_non_differentiable(mask)
        return torch.from_numpy(value.detach().numpy().clip(low)), mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient * mask, None


@hard
def autograd_function_with_numpy() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            value, mask = Clip.apply(self.a(x), 0.0)
            return self.b(value), mask

    return Model(), x(), {}


@hard
def functorch_transforms() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            rows = torch.func.vmap(lambda row: self.a(row) * row.sum())(x)
            gradient = torch.func.grad(lambda v: self.b(v).square().sum())(x)
            _, tangent = torch.func.jvp(lambda v: v.sin(), (x,), (torch.ones_like(x),))
            jacobian = torch.func.jacrev(lambda v: (v * v).sum(0))(x)
            return rows + gradient + tangent + jacobian.sum()

    return Model(), x(), {}


@hard
def functional_call() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            weights = {name: value * 2 for name, value in self.a.named_parameters()}
            return torch.func.functional_call(self.a, weights, (x,)) + self.b(x)

    return Model(), x(), {}


@hard
def ensemble_of_stacked_modules() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.members = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            parameters, buffers = torch.func.stack_module_state(list(self.members))
            base = copy.deepcopy(self.members[0])

            def run(p: Any, b: Any, value: Tensor) -> Tensor:
                return torch.func.functional_call(base, (p, b), (value,))

            return torch.func.vmap(run, in_dims=(0, 0, None))(parameters, buffers, x)

    return Model(), x(), {}


@hard
def gradient_inside_the_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self.a(inner).square().sum(), inner, create_graph=True)
            return self.b(x - 0.1 * slope)

    return Model(), x(), {}


@hard
def flexible_attention() -> Case:
    from torch.nn.attention.flex_attention import flex_attention

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            q = self.a(x).view(1, 1, 3, 4)
            return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j)).sum(1)

    return Model().requires_grad_(False), x(), {}


@hard
def checkpoint_reentrant() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(lambda v: self.b(F.dropout(self.a(v), 0.5)), x, use_reentrant=True)

    return Model().train(), (torch.randn(3, 4, requires_grad=True),), {}


@hard
def checkpoint_sequence() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)

    return Model().train(), (torch.randn(3, 4, requires_grad=True),), {}
