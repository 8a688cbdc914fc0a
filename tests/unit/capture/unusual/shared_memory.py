"""Models that let several tensors share memory, and exchange it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def swapped_tensors() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y, z = self.a(x).detach().clone(), self.b(x).detach().clone()
            torch.utils.swap_tensors(y, z)
            y.add_(1)
            return y * 2 - z

    return Model(), x(), {}


@unusual
def resized_set_and_shared_storage() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y = self.a(x).detach().clone()
            buffer = torch.empty(0)
            buffer.resize_(3, 4).copy_(y)
            other = torch.empty(0).set_(buffer)[1:]
            other.mul_(2)
            alias = torch.empty(0).set_(y)
            alias.add_(other.sum())
            return buffer + y

    return Model(), x(), {}


@unusual
def written_into_views_of_parameters() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            with torch.no_grad():
                self.a.weight[0].mul_(2)
                self.a.weight.view(-1)[5:7] = 0
                self.a.weight.data.clamp_(-0.4, 0.4)
                nn.utils.parameters_to_vector(self.b.parameters())
            return self.b(self.a(x))

    return Model(), x(), {}


@unusual
def results_given_in_all_kinds_of_places() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y = self.a(x).detach()
            values, places = torch.empty(3), torch.empty(3, dtype=torch.long)
            torch.max(y, 1, out=(values, places))
            into = torch.zeros(5, 4)
            torch.mm(y, torch.eye(4), out=into[1:4])
            torch.cat([y[:1], y[:1]], out=into[3:])
            torch.sort(y, 0, out=(into[:3], torch.empty(3, 4, dtype=torch.long)))
            torch.cumsum(into, 0, out=into)
            return into + values.sum() + places.sum()

    return Model(), x(), {}


@unusual
def strided_windows_written() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y = self.a(x).detach().clone()
            band = torch.as_strided(y, (2, 2), (5, 1), 1)
            band.fill_(3)
            t = torch.as_strided_(y.clone(), (4, 3), (1, 4))
            y.t()[1:].t().neg_()
            scattered = torch.as_strided_scatter(y, torch.ones(3), (3,), (5,))
            y = y + torch.diagonal_scatter(y, torch.zeros(3)) + torch.select_scatter(y, torch.ones(4), 0, 1)
            return y + scattered + t.T

    return Model(), x(), {}


@unusual
def complex_views_conjugated_and_negated() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            z = torch.view_as_complex(self.a(x).detach().clone().view(3, 2, 2))
            c = z.conj()
            c.mul_(2)
            n = c.imag
            n.add_(1)
            torch.view_as_real(z)[..., 0].zero_()
            m = torch.real(z.mH) - torch._neg_view(z.real).T
            w = torch.polar(z.abs(), z.angle())
            return m.T.sum() + n + z.resolve_conj().imag + c.resolve_conj().real + w.real + (z * c).imag

    return Model(), x(), {}


@unusual
def overlapping_copies() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y = self.a(x).detach().clone()
            y[1:] = y[:-1].clone()
            y[:, 1:].copy_(y[:, :-1].clone())
            y.roll(1, 0)
            y[[0, 2]] = y[[2, 0]]
            y.index_fill_(1, torch.tensor([3]), 7).masked_scatter_(y > 0, torch.arange(12.0))
            y.put_(torch.tensor([0, 5]), torch.tensor([9.0, 8.0]))
            y[y < 0] *= -1
            y[..., None][torch.tensor([True, False, True])] += 1
            return y

    return Model(), x(), {}


@unusual
def host_memory_shared_and_frombuffer() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            raw = bytearray(48)
            y = torch.frombuffer(raw, dtype=torch.float32).view(3, 4)
            y.copy_(self.a(x).detach())
            other = torch.as_tensor(np.frombuffer(raw, dtype=np.float32))
            shared = self.b(x).detach().share_memory_()
            dl = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(shared))
            dl.add_(1)
            return y + other.view(3, 4) + shared

    return Model(), x(), {}


@unusual
def saved_and_loaded_within() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            file = io.BytesIO()
            torch.save({"y": self.a(x).detach()}, file)
            file.seek(0)
            y = torch.load(file)["y"]
            twin = nn.Linear(4, 4)
            twin.load_state_dict(self.b.state_dict(), assign=True)
            return twin(y)

    return Model(), x(), {}


@unusual
def views_returned_after_their_base_was_written() -> Case:
    """Autograd gives such a view its place in the graph only when somebody asks for it."""

    class Model(Two):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            whole = torch.cat([self.a(x), self.b(x)])
            even, odd, turned = whole[::2], whole[1::2], whole.t()
            whole.mul_(2)
            turned[1] += 1
            return even, odd, turned, whole.narrow(0, 1, 2)

    return Model(), x(), {}
