"""Models over nested, sparse, complex, quantised and packed tensors; as small as they get."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_sequence

from tests.unit.capture.hard.registry import Case, Two, hard, x


@hard
def nested_tensors() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            nested = torch.nested.nested_tensor([x[:1], x], layout=torch.jagged)
            return torch.nested.to_padded_tensor(self.a(nested) * 2, 0.0).sum(1)

    return Model().requires_grad_(False), x(), {}


@hard
def nested_tensor_as_input() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return torch.nested.to_padded_tensor(self.a(x), 0.0)

    return Model(), (torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)]),), {}


@hard
def sparse_tensors() -> Case:
    class Model(Two):
        def forward(self, adjacency: Tensor, x: Tensor) -> Tensor:
            y = torch.sparse.mm(adjacency, self.a(x))
            return y + torch.sparse.mm(adjacency.coalesce().to_sparse_csr(), x) + (adjacency * 2).to_dense().sum()

    eye = torch.eye(3).to_sparse()
    return Model(), (eye, torch.randn(3, 4)), {}


@hard
def complex_tensors() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            z = torch.complex(self.a(x), self.b(x))
            z = z * z.conj() + torch.view_as_complex(torch.stack([x, x], -1))
            return torch.fft.fft(z).abs() + z.real + torch.view_as_real(z)[..., 1] + z.resolve_conj().imag

    return Model(), x(), {}


@hard
def quantised_layers() -> Case:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, torch.qint8), x(), {}


@hard
def quantised_tensors() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            q = torch.quantize_per_tensor(self.a(x), 0.1, 10, torch.quint8)
            return self.b(q.dequantize()) + q.int_repr().float().mean()

    return Model().requires_grad_(False), x(), {}


@hard
def packed_recurrent_networks() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(4, 3, 2, bidirectional=True, dropout=0.1)
            self.rnn = nn.RNN(6, 2)
            self.cell = nn.LSTMCell(2, 2)

        def forward(self, sequences: list[Tensor]) -> Tensor:
            packed, hidden = self.gru(pack_sequence(sequences, enforce_sorted=False))
            packed, _ = self.rnn(packed)
            h, c = self.cell(packed.data[:2])
            return h + c + hidden.sum()

    return Model().train(), ([torch.randn(2, 4), torch.randn(3, 4)],), {}


class Tagged(Tensor):
    """A subclass that sees each function first."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


@hard
def tensor_subclass_as_input() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return self.b(F.relu(self.a(x)) + x)

    return Model(), (torch.randn(3, 4).as_subclass(Tagged),), {}


@hard
def half_precision_and_autocast() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.a(x)
                with torch.autocast("cpu", enabled=False):
                    y = self.b(y.float())
                y = y @ self.a.weight
            return y.float()

    return Model(), x(), {}
