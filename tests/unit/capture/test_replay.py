"""The edges of a record are right: running its kernels again gives every value bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from tests.unit.capture.models import TRANSFORMERS, ConvNet, tiny_transformer
from tests.unit.capture.replay import Mismatch, bits, needed, record, replay, with_edge_moved

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


class Two(nn.Module):
    """Two linear layers for subclasses to use."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)


def x() -> tuple[Tensor]:
    return (torch.randn(2, 8),)


@case
def conv_net_in_training_mode() -> Case:
    return ConvNet().train(), (torch.randn(2, 3, 8, 8),), {}


@case
def dropout_in_training_mode() -> Case:
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).train(), x(), {}


@case
def writes_in_place() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x)
            h.relu_()
            h += 1
            h.mul_(2)
            return self.b(h)

    return Model(), x(), {}


@case
def write_through_a_view() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            buffer = self.a(x) * 1
            buffer[:, :4] = self.b(x)[:, 4:]
            view = buffer.view(4, 4)[1:]
            view.add_(1)
            return buffer.sum(1)

    return Model(), x(), {}


@case
def written_view_is_returned() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            buffer = torch.zeros(2, 16)
            buffer[:, :8] = self.a(x)
            buffer[:, 8:] = self.b(x)
            return buffer

    return Model(), x(), {}


@case
def unwritten_input_returned_by_a_cast() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x)
            return self.b(h.to(torch.float32)) + h.float()

    return Model(), x(), {}


@case
def tuples_and_containers() -> Case:
    class Model(Two):
        def forward(self, pair: Any, rest: Any) -> Any:
            left, [right] = pair
            p, q = self.a(left).chunk(2, -1)
            values, index = torch.cat([q, p], -1).topk(4, -1)
            return {"x": (values, [self.b(right) + rest["z"]]), "index": index}

    return Model(), ((torch.randn(2, 8), [torch.randn(2, 8)]), {"z": torch.randn(2, 8)}), {}


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, i: Tensor) -> Tensor:
        ctx.save_for_backward(i)
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


@case
def autograd_function() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.b(Swish.apply(self.a(x)))
            return y

    return Model(), x(), {}


@case
def memory_changes_hands_outside_the_dispatcher() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x)
            y: Tensor = self.b(h.data) + torch.from_numpy(h.detach().numpy()) + torch.tensor(np.float32(2.0))
            return y

    return Model(), x(), {}


@case
def packed_sequences() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, (h, _) = self.lstm(packed)
            return pad_packed_sequence(out, batch_first=True)[0].sum(1) + h[-1].sum()

    return Model(), (torch.randn(3, 4, 8), torch.tensor([4, 2, 3])), {}


@case
def multi_head_attention() -> Case:
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    q = torch.randn(2, 4, 8)
    return layer, (q, q, q), {}


@case
def encoder_on_its_fast_path() -> Case:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2).eval().requires_grad_(False), (torch.randn(2, 4, 8),), {}


@case
def checkpointed_layers() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            h: Tensor = checkpoint(self.a, x, use_reentrant=True)
            y: Tensor = checkpoint(self.b, h, use_reentrant=False)
            return y

    return Model(), (torch.randn(2, 8).requires_grad_(),), {}


@case
def mixed_dtypes_and_autocast() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                h = F.gelu(self.a(x))
            return self.b(h.float()).double() * torch.arange(8)

    return Model(), x(), {}


@case
def fourier_transform() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            spectrum = torch.fft.rfft(self.a(x)) * (1 + 2j)
            return self.b(torch.fft.irfft(spectrum, n=8)) + spectrum.abs().sum()

    return Model(), x(), {}


def transformer(kind: str) -> Callable[[], Case]:
    return lambda: tiny_transformer(kind)


for _kind in TRANSFORMERS:
    CASES[_kind] = transformer(_kind)

RANDOM = {"dropout_in_training_mode"}


@pytest.mark.parametrize("name", CASES)
def test_replay_gives_every_value_bit_for_bit(name: str) -> None:
    structure, observed = record(*CASES[name]())
    assert replay(structure, observed) > 0


@pytest.mark.parametrize("name", sorted(set(CASES) - RANDOM))
def test_kernels_that_outputs_depend_on_suffice_for_the_outputs(name: str) -> None:
    structure, observed = record(*CASES[name]())
    assert replay(structure, observed, slice_of_output=True) > 0


@pytest.mark.parametrize("name", ["conv_net_in_training_mode", "write_through_a_view", "bert"])
def test_a_bent_edge_is_noticed(name: str) -> None:
    structure, observed = record(*CASES[name]())
    inputs = structure.kernels.column_lists("inputs")
    tensors = structure.tensors
    contents = {
        row: bits(tensor)
        for rows, results in zip(structure.kernels.column_lists("outputs"), observed.results, strict=True)
        for row, tensor in zip(rows, results, strict=False)
    }
    tried = noticed = 0
    for kernel in sorted(needed(structure)):
        for position, row in enumerate(inputs[kernel]):
            alike = [
                other
                for other in range(tensors.rows)
                if contents.get(other, b"") != contents.get(row, b"")
                and structure.shape(other) == structure.shape(row)
                and tensors["dtype"][other] == tensors["dtype"][row]
                and 0 <= tensors["producer"][other] < kernel
            ]
            if not alike or tried >= 12:
                continue
            tried += 1
            try:
                replay(with_edge_moved(structure, kernel, position, alike[-1]), observed)
            except Mismatch:
                noticed += 1
    assert tried >= 2
    assert noticed == tried


def test_a_lost_write_through_a_view_is_noticed() -> None:
    structure, observed = record(*CASES["write_through_a_view"]())
    assert structure.kernels["also_reads"].size > 0
    offsets = structure.kernels._offsets
    offsets["also_reads"] = np.zeros_like(offsets["also_reads"])
    structure.kernels._values["also_reads"] = structure.kernels["also_reads"][:0]
    with pytest.raises(Mismatch):
        replay(structure, observed, slice_of_output=True)
