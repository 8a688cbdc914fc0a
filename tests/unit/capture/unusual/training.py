"""Models whose forward pass is a training step, or several: optimizers, scalers, averages, adversaries, inner loops."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def two_optimizers_in_one_step() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = nn.Linear(4, 4), nn.Linear(4, 1)
            self.of_generator = torch.optim.SGD(self.generator.parameters(), 0.1)
            self.of_critic = torch.optim.Adam(self.critic.parameters(), 0.1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                made = self.generator(x)
                critic = F.softplus(self.critic(made.detach())).mean() + F.softplus(-self.critic(x)).mean()
                self.of_critic.zero_grad()
                critic.backward()
                self.of_critic.step()
                generator = F.softplus(-self.critic(made)).mean()
                self.of_generator.zero_grad()
                generator.backward()
                self.of_generator.step()
                self.of_generator.zero_grad()
                self.of_critic.zero_grad()
            return critic.detach(), self.generator(x).detach() + generator.detach()

    return Model(), x(), {}


@unusual
def teacher_averaged_after_an_update() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
            self.average = torch.optim.swa_utils.AveragedModel(
                self.student, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
            )

        def forward(self, x: Tensor) -> Tensor:
            self.average.update_parameters(self.student)
            with torch.no_grad():
                target = self.average(x)
            return F.mse_loss(self.student(x), target)

    return Model().train(), x(), {}


@unusual
def clipped_and_scaled_by_hand() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            twin = copy.deepcopy(self.a)
            optimizer = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9)
            with torch.enable_grad():
                for _ in range(2):
                    optimizer.zero_grad()
                    scaler.scale(twin(x).square().mean()).backward()
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(twin.parameters(), 0.1)
                    scaler.step(optimizer)
                    scaler.update()
            return self.b(twin(x))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def inner_loop_with_gradients_of_gradients() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            fast = dict(self.a.named_parameters())
            for _ in range(2):
                loss = torch.func.functional_call(self.a, fast, (x,)).square().mean()
                slopes = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {name: value - 0.1 * slope for (name, value), slope in zip(fast.items(), slopes, strict=True)}
            return self.b(torch.func.functional_call(self.a, fast, (x,)))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def adversarial_examples_found_by_ascent() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            change = torch.zeros_like(x, requires_grad=True)
            with torch.enable_grad():
                for _ in range(3):
                    loss = F.cross_entropy(self.a(x + change), torch.tensor([0, 1, 2]))
                    (slope,) = torch.autograd.grad(loss, change)
                    with torch.no_grad():
                        change.add_(0.1 * slope.sign()).clamp_(-0.2, 0.2)
            return self.b(x + change.detach())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def second_order_products() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            def loss(value: Tensor) -> Tensor:
                return self.a(value).tanh().square().sum()

            product = torch.autograd.functional.hvp(loss, x, torch.ones_like(x))[1]
            hessian = torch.func.hessian(loss)(x[:1])
            return self.b(product), hessian.squeeze()

    return Model(), x(), {}


@unusual
def gradients_by_sample() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            weights = {name: value.detach() for name, value in self.a.named_parameters()}

            def loss(weights: Any, row: Tensor) -> Tensor:
                return torch.func.functional_call(self.a, weights, (row[None],)).square().mean()

            each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)
            norms = torch.stack([value.flatten(1).norm(dim=1) for value in each.values()]).norm(dim=0)
            return self.b(x) / norms[:, None]  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def gradients_accumulated_over_slices() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            weight = self.a.weight.detach().clone().requires_grad_()
            with torch.enable_grad():
                for piece in x.split(1):
                    (F.linear(piece, weight).square().sum() / 3).backward()
            assert weight.grad is not None
            return self.b(x @ weight.grad)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def updates_by_foreach_and_by_fused_kernels() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            values = [p.detach().clone() for p in self.a.parameters()]
            slopes = [torch.ones_like(value) for value in values]
            moments = torch._foreach_mul(values, 0.5)
            torch._foreach_lerp_(moments, slopes, 0.1)
            torch._foreach_addcdiv_(values, slopes, torch._foreach_add(torch._foreach_sqrt(slopes), 1.0), -0.1)
            norms = torch._foreach_norm(values)
            torch._foreach_copy_(slopes, values)
            return self.b(F.linear(x, *slopes) + norms[0] + moments[1])  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def spectral_penalty_with_persistent_vectors() -> Case:
    class Model(Two):
        u: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("u", F.normalize(torch.randn(4), dim=0))

        def forward(self, x: Tensor) -> Tensor:
            weight = self.a.weight
            with torch.no_grad():
                v = F.normalize(weight.T @ self.u, dim=0, out=torch.empty(4))
                self.u = F.normalize(weight @ v, dim=0, out=self.u)
                u, v = self.u.clone(), v.clone()
            return self.b(F.linear(x, weight / (u @ weight @ v)))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def gradient_reversal_and_scaling_hooks() -> Case:
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:  # type: ignore[override]
            return value.view_as(value)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
            return -gradient

    class Model(Two):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            feature = self.a(x)
            if feature.requires_grad:
                feature.register_hook(lambda gradient: gradient * 0.5)
            return self.b(feature), self.b(Reverse.apply(feature))  # type: ignore[no-untyped-call]

    return Model(), x(), {}


@unusual
def policy_sampled_and_scored() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            policy = torch.distributions.Categorical(logits=self.a(x))
            action = policy.sample()
            normal = torch.distributions.Normal(self.b(x), 1.0)
            z = normal.rsample()
            divergence = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0))
            return policy.log_prob(action).mean() + policy.entropy().sum() + divergence.mean() + z.sum()

    return Model(), x(), {}
