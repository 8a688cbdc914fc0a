"""Models on tensors that are not plain, and on random numbers."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import stateless
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


class Logged(Tensor):
    """Changes what functions do, as subclasses with units or names do."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result.relu() if func is F.linear and isinstance(result, Tensor) else result


@unusual
def subclass_that_adds_work() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x.as_subclass(Logged))).as_subclass(Tensor)  # type: ignore[no-any-return]

    return Model(), x(), {}


class Wrapped:
    """No tensor, but torch functions take it."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [item.value if isinstance(item, Wrapped) else item for item in args]
        return cls(func(*plain, **(kwargs or {})))


@unusual
def tensor_like_objects() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            wrapped: Any = Wrapped(self.a(x))
            return self.b(torch.add(torch.relu(wrapped), 1).value)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def packed_and_padded_bidirectional() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            output, (hidden, _) = self.lstm(packed)
            padded, _ = pad_packed_sequence(output, batch_first=True)
            return padded.sum(1) + hidden[0].sum()  # type: ignore[no-any-return]

    return Model().eval(), (torch.randn(3, 5, 4), torch.tensor([2, 5, 3])), {}


@unusual
def sparse_weights_of_several_layouts() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            weight = self.a.weight.detach()
            coo = (weight * (weight > 0)).to_sparse()
            csr = (weight * (weight < 0)).to_sparse_csr()
            return torch.sparse.mm(coo, x.T).T + (csr @ x.T).T + torch.sparse.softmax(coo, 1).to_dense()[0]

    return Model(), x(), {}


@unusual
def ragged_lists_and_bags() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(7, 4, mode="mean")

        def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
            bags = self.bag(ids, offsets)
            unique, inverse = torch.unique(ids, return_inverse=True)
            parts = torch.nn.utils.rnn.pad_sequence([unique[:2], unique], batch_first=True)
            return bags.sum(0) + inverse.sum() + parts.sum() + torch.bincount(ids).max()  # type: ignore[no-any-return]

    return Model(), (torch.tensor([1, 2, 3, 1, 6]), torch.tensor([0, 2])), {}


@unusual
def random_numbers_of_every_kind() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            generator = torch.Generator().manual_seed(3)
            noise = torch.randn(3, 4, generator=generator) + torch.rand_like(x) + torch.empty_like(x).normal_()
            chosen = torch.multinomial(self.a(x).softmax(-1), 2) + torch.bernoulli(x.sigmoid()).long()[:, :2]
            with torch.random.fork_rng():
                torch.manual_seed(0)
                shuffled = x[torch.randperm(3)]
            return noise + chosen.sum() + shuffled + F.gumbel_softmax(self.b(x), hard=True)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def another_thread_runs_another_model_meanwhile() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            other = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            thread = threading.Thread(target=lambda: other(torch.ones(2, 4)).sum().backward())
            thread.start()
            y = self.b(self.a(x))
            thread.join()
            return y  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def default_device_and_dtype_changed_inside() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)
            try:
                with torch.device("cpu"):
                    table = torch.linspace(0, 1, 4)
            finally:
                torch.set_default_dtype(before)
            return self.a(x) + table.float()  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def swapped_parameters_in_a_context() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with stateless._reparametrize_module(self.a, {"weight": self.b.weight * 2, "bias": self.b.bias}):
                return self.a(x)  # type: ignore[no-any-return]

    return Model(), x(), {}
