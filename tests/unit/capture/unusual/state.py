"""Models whose parameters, buffers and settings change while they run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import fusion, prune
from torch.nn.utils import parametrize as parametrizing

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def layer_cast_to_another_precision_and_back() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a.double()(x.double())
            self.a.float()
            return self.b(y.float()) + self.a(x)  # type: ignore[no-any-return]

    return Model().requires_grad_(False), x(), {}


@unusual
def parameters_written_from_one_vector() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            vector = nn.utils.parameters_to_vector(self.a.parameters()).detach()
            nn.utils.vector_to_parameters(vector * 0.5, self.b.parameters())
            return self.b(self.a(x))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def parameters_and_buffers_assigned_anew() -> Case:
    class Model(Two):
        steps: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.steps = self.steps + 1
            self.register_buffer("seen", x.detach().mean(0))
            self.a.bias = nn.Parameter(self.a.bias.detach() + 1)
            kept = self.b.weight
            del self.b.weight
            self.b.weight = kept
            return self.b(self.a(x)) * self.steps + self.seen  # type: ignore[no-any-return, operator]

    return Model(), x(), {}


@unusual
def pruned_and_normed_by_hooks() -> Case:
    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            prune.l1_unstructured(self.a, "weight", amount=0.5)
            self.c = torch.nn.utils.spectral_norm(nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            y = self.c(self.a(x))
            prune.random_structured(self.b, "weight", amount=1, dim=0)
            y = self.b(y)
            prune.remove(self.b, "weight")
            return y  # type: ignore[no-any-return]

    return Model().train(), x(), {}


@unusual
def fused_for_inference_within() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

        def forward(self, x: Tensor) -> Tensor:
            fused = fusion.fuse_conv_bn_eval(self.conv, self.norm)
            return fused(x) - self.norm(self.conv(x))  # type: ignore[no-any-return]

    return Model().eval(), (torch.randn(1, 3, 4, 4),), {}


@unusual
def parametrized_and_released_within() -> Case:
    class Double(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight * 2

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            parametrizing.register_parametrization(self.a, "weight", Double())
            try:
                return self.b(self.a(x))  # type: ignore[no-any-return]
            finally:
                parametrizing.remove_parametrizations(self.a, "weight", leave_parametrized=False)

    return Model(), x(), {}


@unusual
def lists_of_modules_that_grow_and_shrink() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            last = self.layers.pop(-1)
            self.layers.insert(0, last)
            for layer in self.layers[1:]:
                x = layer(x)
            moved = self.layers[0]
            del self.layers[0]
            self.layers.append(moved)
            return self.net[:2](x) + self.net[-1](x)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def initialised_and_loaded_within() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            kept = {name: value.clone() for name, value in self.a.state_dict().items()}
            nn.init.ones_(self.a.weight)
            nn.init.trunc_normal_(self.a.bias)
            y = self.a(x)
            self.a.load_state_dict(kept)
            self.b.reset_parameters()
            return self.b(y) + self.a(x)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def embedding_renormalised_as_it_is_read() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 4, max_norm=0.5, padding_idx=0)

        def forward(self, ids: Tensor) -> Tensor:
            first = self.table(ids)
            return first + self.table(ids.flip(0)) + self.table.weight[1]  # type: ignore[no-any-return]

    return Model(), (torch.tensor([1, 2, 0, 4]),), {}


@unusual
def statistics_averaged_in_several_ways() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cumulative = nn.BatchNorm1d(4, momentum=None)
            self.without = nn.BatchNorm1d(4, track_running_stats=False)
            self.frozen = nn.BatchNorm1d(4).eval()

        def forward(self, x: Tensor) -> Tensor:
            y = self.cumulative(x) + self.without(x)
            y = y + self.cumulative(x * 2)
            self.cumulative.reset_running_stats()
            return self.frozen(self.cumulative(y))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def flags_of_autograd_changed_on_tensors() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            kept = y.clone().detach_()
            leaf = kept.requires_grad_()
            z = self.b(leaf)
            if z.requires_grad:
                z.retain_grad()
            self.b.weight.requires_grad_(False)
            w = self.b(y)
            self.b.weight.requires_grad_(True)
            return w + z.detach()  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def augmented_assignments_to_parts() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).clone()
            y[1:] += self.b(x)[1:]
            y[y > 0] *= 0.5
            y[..., 0], y[..., 1] = y[..., 1].clone(), y[..., 0].clone()
            y[[0, 1], [2, 3]] -= 1
            y @= torch.eye(4)
            y[:, -1:] **= 2
            return y

    return Model(), x(), {}


@unusual
def decompositions_with_several_results() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> dict[str, Any]:
            square = self.a(x).T @ self.b(x)
            spd = square @ square.T + 4 * torch.eye(4)
            values, vectors = torch.linalg.eigh(spd)
            factor, pivots, info = torch.linalg.lu_factor_ex(spd)
            solved = torch.cholesky_solve(x.T, torch.linalg.cholesky(spd))
            u, s, v = torch.linalg.svd(square, full_matrices=False)
            unique, inverse, counts = torch.unique_consecutive(
                (x > 0).long().flatten(), return_inverse=True, return_counts=True
            )
            return {
                "eigen": values.sum() + (vectors * vectors).sum(),
                "lu": factor.diagonal().prod() + pivots.sum() + info,
                "solved": solved,
                "svd": (u * s) @ v,
                "unique": (unique, inverse, counts.max(), torch.kthvalue(x, 2), torch.aminmax(x), x.mode(1)),
                "frexp": torch.frexp(x),
                "parts": torch.tensor_split(F.one_hot((x > 0).long()), 2, dim=-1),
            }

    return Model().requires_grad_(False), x(), {}
