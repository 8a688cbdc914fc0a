"""Models that write, share, exchange and reinterpret memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def data_is_exchanged() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            z = self.b(x)
            y.data = z.detach() * 2
            return y + 1

    return Model(), x(), {}


@unusual
def data_of_a_copy_is_exchanged_twice() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = x.clone()
            y.data = x.exp()
            first = y * 2
            y.data = self.a(x).detach()
            return first + y

    return Model(), x(), {}


@unusual
def weights_exchanged_for_a_pass() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            kept = self.a.weight.data
            self.a.weight.data = kept * 0.5
            y = self.a(x)
            self.a.weight.data = kept
            return self.a(y)

    return Model(), x(), {}


@unusual
def pieces_overwritten_one_by_one() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            out = x.new_zeros(3, 8)
            for row in range(3):
                out[row, :4] = self.a(x[row])
                out[row, 4:] = self.b(x[row])
            out[1].zero_()
            return out.flip(0)

    return Model(), x(), {}


@unusual
def diagonal_and_masked_writes() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            square = self.a(x)[:3, :3].clone()
            square.diagonal().mul_(2)
            square.masked_fill_(torch.eye(3, dtype=torch.bool), 1.0)
            square.index_add_(0, torch.tensor([0, 2]), self.b(x)[:2, :3])
            square[torch.tensor([1]), torch.tensor([2])] = 5
            square.T[0].neg_()
            return square

    return Model(), x(), {}


@unusual
def written_through_numpy() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).detach()
            z = torch.from_numpy(y.numpy())
            z.mul_(3)
            return y + self.b(x)

    return Model(), x(), {}


@unusual
def expanded_strided_and_unfolded() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            rows = y.as_strided((2, 4), (4, 1), 4)
            windows = y.unfold(1, 2, 1)
            real = torch.view_as_complex(y.view(3, 2, 2)).conj().imag
            return windows.sum() + rows.mean() + real.sum() + y[:1].expand(5, 4).sum() + y.view(torch.int32).sum()

    return Model(), x(), {}


@unusual
def split_chunk_unbind_and_swap_in_place() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).detach().clone()
            left, right = y.chunk(2, 1)
            kept = left.clone()
            left.copy_(right)
            right.copy_(kept)
            first, *_ = y.unbind(0)
            first.add_(1)
            return torch.stack(y.split(1)).squeeze(1)

    return Model(), x(), {}


@unusual
def transposed_in_place_and_channels_last() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            y = self.conv(x.to(memory_format=torch.channels_last)).contiguous()
            y = y.clone().transpose_(2, 3)
            y.squeeze_(0).unsqueeze_(0)
            return F.relu_(y)

    return Model(), (torch.randn(1, 3, 4, 6),), {}


@unusual
def output_is_a_view_of_the_input_written_before() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = x.clone()
            view = y[1:]
            y += 1
            view *= 2
            return view, y

    return Model(), x(), {}


@unusual
def accumulator_filled_by_its_children() -> Case:
    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor, into: Tensor) -> None:
            into.add_(self.layer(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(Adds() for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            total = torch.zeros_like(x)
            for part in self.parts:
                part(x, into=total)
            return total

    return Model(), x(), {}


@unusual
def key_value_cache_in_a_buffer() -> Case:
    class Model(Two):
        cache: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(6, 4))
            self.filled = 0

        def forward(self, x: Tensor) -> Tensor:
            token = x[0]
            for position in range(len(x)):
                self.cache[position] = self.a(x[position]).detach()
                known = self.cache[: position + 1]
                token = F.softmax(self.b(x[position]) @ known.T, -1) @ known
            return token

    return Model(), x(), {}
