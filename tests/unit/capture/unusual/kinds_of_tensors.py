"""Models on tensors that are jagged, sparse, packed, quantised, half as wide, empty or without memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def ragged_attention() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            nt = torch.nested.nested_tensor_from_jagged(self.a(x), torch.tensor([0, 1, 3]))
            q = nt.unsqueeze(1)
            y = F.scaled_dot_product_attention(q, q, q)
            return self.b(y.transpose(1, 2).flatten(2).values())

    return Model().requires_grad_(False), x(), {}


@unusual
def sparse_blocks_and_semi_structures() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            w = self.a.weight.detach()
            csr, csc = w.relu().to_sparse_csr(), w.neg().relu().to_sparse_csc()
            bsr = w.to_sparse_bsr((2, 2))
            places = torch.tensor([[0, 1, 1], [2, 0, 2]])
            coo = torch.sparse_coo_tensor(places, torch.tensor([3.0, 4.0, 5.0]), (4, 4)).coalesce()
            y = (bsr @ x.T).T + (csr @ x.T).T
            y = (
                y
                + torch.sparse.sum(coo, 0).to_dense()
                + csc.to_dense()[0]
                + coo.values().sum()
                + csr.crow_indices().sum()
            )
            e = F.embedding(torch.tensor([0, 1, 1]), self.b.weight, sparse=True)
            return y + e

    return Model(), x(), {}


@unusual
def packed_unsorted_with_state() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(4, 3, batch_first=True)
            self.lstm = nn.LSTM(3, 3)

        def forward(self, x: Tensor, lengths: Tensor) -> Any:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            y, _ = self.gru(packed, torch.zeros(1, 3, 3))
            z, (last, _) = self.lstm(y)
            data = z.data * 2
            again = PackedSequence(data, z.batch_sizes, z.sorted_indices, z.unsorted_indices)
            padded, _ = pad_packed_sequence(again, batch_first=True, padding_value=-1, total_length=6)
            return padded, last[:, again.unsorted_indices]

    return Model(), (torch.randn(3, 5, 4), torch.tensor([2, 5, 1])), {}


@unusual
def dynamically_quantised() -> Case:
    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model = torch.ao.quantization.quantize_dynamic(plain, {nn.Linear}, dtype=torch.qint8)
    return model, x(), {}


@unusual
def autocast_nested_in_half_and_back() -> Case:
    class Model(Two):
        @torch.autocast("cpu", torch.bfloat16)
        def forward(self, x: Tensor) -> Any:
            y = self.a(x)
            with torch.autocast("cpu", torch.float16):
                z = self.b(y.float())
            with torch.autocast("cpu", enabled=False):
                w = F.linear(x.float(), self.a.weight)
            return y + z + w, F.layer_norm(y, (4,)), checkpoint(self.a, y, use_reentrant=False)

    return Model(), x(), {}


@unusual
def tiny_floats_and_bits() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            y = self.a(x).detach()
            f8 = y.to(torch.float8_e4m3fn)
            bits = y.view(torch.int32).bitwise_and(0x7FFFFFFF).view(torch.float32)
            packed = (y > 0).to(torch.uint8).mul(torch.tensor([1, 2, 4, 8], dtype=torch.uint8)).sum(1)
            half = y.half().view(torch.uint8)
            return f8.to(torch.float32) + bits + packed[:, None] + half.float().sum() + y.double().float()

    return Model(), x(), {}


@unusual
def zero_sized_and_scalar_tensors() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            none = x[:0]
            y = self.a(none)
            s = torch.tensor(2.0)
            s += 1
            e = torch.cat([y, self.b(x)])
            idx = torch.nonzero(x > 100)
            return e * s + x[idx[:, 0]].sum() + torch.empty(0).sum() + y.sum()

    return Model(), x(), {}


@unusual
def module_on_meta_within() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            with torch.device("meta"):
                made = nn.Linear(4, 4)
            made.to_empty(device="cpu")
            with torch.no_grad():
                for p in made.parameters():
                    p.fill_(0.5)
            return made(self.a(x))

    return Model(), x(), {}


@unusual
def dispatch_key_tricks() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Any:
            with torch.no_grad(), torch.inference_mode(False):
                y = self.a(x)
            with torch.inference_mode():
                z = self.b(x)
                z.mul_(2)
            with torch.autograd.set_multithreading_enabled(False):
                with torch.autograd.graph.disable_saved_tensors_hooks("no"):
                    w = self.b(x)
            with torch._C._AutoDispatchBelowAutograd():
                v = torch.sin(x)
            return y + z.clone() + w + v

    return Model(), x(), {}
