"""Architectures whose structure is made by what they compute: routing, scans, graphs, decoding, generated weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def experts_chosen_by_row_and_added_by_index() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(4, 3)
            self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            weights, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
            result = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                rows, places = torch.where(chosen == number)
                if len(rows):
                    result.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
            return result

    return Model(), (torch.randn(6, 4),), {}


@unusual
def experts_with_capacity_sorted_and_scattered() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(4, 2, bias=False)
            self.weights = nn.Parameter(torch.randn(2, 4, 4))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            scores = self.gate(x)
            expert = scores.argmax(-1)
            order = expert.argsort(stable=True)
            sizes = torch.bincount(expert, minlength=2).tolist()
            pieces = [piece @ self.weights[k] for k, piece in enumerate(x[order].split(sizes))]
            result = torch.empty_like(x).scatter_(0, order[:, None].expand(-1, 4), torch.cat(pieces))
            balance = (scores.softmax(-1).mean(0) * F.one_hot(expert, 2).float().mean(0)).sum()
            return result * scores.gather(1, expert[:, None]), balance

    return Model(), (torch.randn(6, 4),), {}


@unusual
def selective_scan() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.to_parameters = nn.Linear(4, 4 + 2 * 3)
            self.log_decay = nn.Parameter(torch.zeros(4, 3))
            self.skip = nn.Parameter(torch.ones(4))
            self.conv = nn.Conv1d(4, 4, 3, padding=2, groups=4)

        def forward(self, x: Tensor) -> Tensor:
            x = F.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
            step, b, c = self.to_parameters(x).split([4, 3, 3], dim=-1)
            step = F.softplus(step)
            decay = torch.exp(step[..., None] * -self.log_decay.exp())
            entering = step[..., None] * b[:, :, None] * x[..., None]
            state = x.new_zeros(x.shape[0], 4, 3)
            found = []
            for t in range(x.shape[1]):
                state = decay[:, t] * state + entering[:, t]
                found.append((state @ c[:, t, :, None]).squeeze(-1))
            return torch.stack(found, 1) + x * self.skip

    return Model(), (torch.randn(2, 5, 4),), {}


@unusual
def retention_in_its_three_forms() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(4, 4, bias=False) for _ in range(3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            q, k, v = self.q(x), self.k(x), self.v(x)
            n = torch.arange(x.shape[1])
            decay = (0.9 ** (n[:, None] - n)).tril()
            parallel = (q @ k.mT * decay) @ v
            state = x.new_zeros(4, 4)
            steps = []
            for t in n.tolist():
                state = 0.9 * state + torch.einsum("bi,bj->ij", k[:, t], v[:, t])
                steps.append(q[:, t] @ state)
            within = torch.cumsum(torch.einsum("bti,btj->btij", k, v), 1)
            return parallel, torch.stack(steps, 1), torch.einsum("bti,btij->btj", q, within)

    return Model(), (torch.randn(1, 4, 4),), {}


@unusual
def long_convolution_by_fourier_transforms() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.poles = nn.Parameter(torch.randn(4, 2, dtype=torch.complex64))
            self.c = nn.Parameter(torch.randn(4, 2, 2))

        def forward(self, x: Tensor) -> Tensor:
            length = x.shape[-1]
            powers = torch.exp(-torch.view_as_real(self.poles).abs()[..., 0, None] * torch.arange(length))
            kernel = torch.einsum("hn,hnl->hl", torch.view_as_complex(self.c), powers.to(torch.complex64)).real
            spectrum = torch.fft.rfft(x, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
            mixed = torch.fft.irfft(spectrum, n=2 * length)[..., :length]
            both = torch.fft.fft2(x).conj().real + torch.fft.fftshift(torch.fft.ifft(x.to(torch.complex64)).imag, -1)
            return mixed + both

    return Model(), (torch.randn(2, 4, 8),), {}


@unusual
def sampled_at_learned_offsets() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.offsets = nn.Conv2d(3, 2, 3, padding=1)
            self.value = nn.Conv2d(3, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            shift = self.offsets(x).permute(0, 2, 3, 1).tanh()
            ys, xs = torch.meshgrid(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 5), indexing="ij")
            grid = torch.stack([xs, ys], -1) + 0.1 * shift
            theta = torch.eye(2, 3)[None].expand(x.shape[0], -1, -1)
            return F.grid_sample(self.value(x), grid, align_corners=True) + F.grid_sample(
                self.value(x), F.affine_grid(theta, [x.shape[0], 4, 4, 5], align_corners=False), align_corners=False
            )

    return Model(), (torch.randn(2, 3, 4, 5),), {}


@unusual
def messages_on_a_graph() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.message = nn.Linear(8, 4)
            self.update = nn.GRUCell(4, 4)
            self.attend = nn.Linear(4, 1)

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            source, target = edges
            for _ in range(2):
                sent = self.message(torch.cat([x[source], x[target]], -1)).relu()
                score = self.attend(sent).squeeze(-1)
                highest = torch.full((len(x),), -torch.inf).scatter_reduce_(0, target, score, "amax")
                weight = (score - highest[target]).exp()
                total = torch.zeros(len(x)).index_add_(0, target, weight)
                received = torch.zeros_like(x).scatter_add_(
                    0, target[:, None].expand_as(sent), sent * (weight / total[target])[:, None]
                )
                x = self.update(received, x)
            return torch.segment_reduce(x, "mean", lengths=torch.tensor([2, 3]), axis=0)

    edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 0, 3, 2, 0, 4]])
    return Model(), (torch.randn(5, 4), edges), {}


@unusual
def differential_equation_with_an_adaptive_step() -> Case:
    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            self.evaluations = 0

        def forward(self, t: float, y: Tensor) -> Tensor:
            self.evaluations += 1
            return self.net(y) * (1 + t)  # type: ignore[no-any-return]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.field = Field()

        def forward(self, y: Tensor) -> Tensor:
            t, step = 0.0, 0.5
            while t < 1:
                k1 = self.field(t, y)
                k2 = self.field(t + step, y + step * k1)
                proposed = y + step / 2 * (k1 + k2)
                if (proposed - y - step * k1).abs().max() > 0.15 and step > 0.1:
                    step /= 2
                    continue
                y, t = proposed, t + step
            return y

    return Model(), x(), {}


@unusual
def adjoint_method_by_a_custom_function() -> Case:
    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, layer: nn.Module, y: Tensor, *parameters: Tensor) -> Tensor:  # type: ignore[override]
            ctx.layer = layer
            with torch.no_grad():
                for _ in range(3):
                    y = y + 0.1 * layer(y)
            ctx.save_for_backward(y, *parameters)
            return y

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
            y, *parameters = ctx.saved_tensors
            totals = [torch.zeros_like(p) for p in parameters]
            for _ in range(3):
                with torch.enable_grad():
                    y = y.detach().requires_grad_()
                    change = ctx.layer(y)
                    step, *rest = torch.autograd.grad(change, (y, *parameters), gradient)
                gradient = gradient + 0.1 * step
                totals = [total + 0.1 * part for total, part in zip(totals, rest, strict=True)]
                y = (y - 0.1 * change).detach()
            return None, gradient, *totals

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return self.b(Solve.apply(self.a, x, *self.a.parameters()))  # type: ignore[no-any-return, no-untyped-call]

    return Model(), (torch.randn(3, 4, requires_grad=True),), {}


@unusual
def fixed_point_with_an_implicit_gradient() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                z = torch.zeros_like(x)
                for _ in range(20):
                    new = torch.tanh(0.3 * self.a(z) + x)
                    if (new - z).norm() < 1e-3:
                        break
                    z = new
            z = torch.tanh(0.3 * self.a(z) + x)
            before = z.clone().detach().requires_grad_()
            after = torch.tanh(0.3 * self.a(before) + x)
            if z.requires_grad:

                def solve(gradient: Tensor) -> Tensor:
                    found = gradient
                    for _ in range(3):
                        found = gradient + torch.autograd.grad(after, before, found, retain_graph=True)[0]
                    return found

                z.register_hook(solve)
            return self.b(z)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def stochastic_depth_by_sample() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            for block in self.blocks:
                kept = torch.rand(len(x)) < 0.6
                if kept.any():
                    x = x.index_copy(0, kept.nonzero().squeeze(1), x[kept] + block(x[kept]) / 0.6)
            return x

    return Model().train(), (torch.randn(5, 4),), {}


@unusual
def early_exit_that_shrinks_the_batch() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.exits = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            result = x.new_full((len(x), 2), torch.nan)
            alive = torch.arange(len(x))
            for depth, (block, leave) in enumerate(zip(self.blocks, self.exits, strict=True)):
                x = block(x).tanh()
                logits = leave(x)
                done = (logits.softmax(-1).amax(-1) > 0.55) | (depth == 2)
                result[alive[done]] = logits[done]
                x, alive = x[~done], alive[~done]
                if not len(alive):
                    break
            return result

    return Model(), (torch.randn(6, 4),), {}
