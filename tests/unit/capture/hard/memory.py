"""Models that write, view, resize and exchange memory; as small as they get."""

from __future__ import annotations

import copy
import io
import pickle

import torch
from torch import Tensor

from tests.unit.capture.hard.registry import Case, Two, hard, x


@hard
def results_in_given_memory() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                out = torch.empty(3, 4)
                torch.add(self.a(x), 1, out=out)
                torch.mul(out, 2, out=out)
                torch.cat([out[:, :2], out[:, 2:]], 1, out=out.clone())
            return self.b(out)

    return Model(), x(), {}


@hard
def memory_exchanged_and_resized() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                y = self.a(x).detach()
                z = torch.empty(0)
                z.set_(y)
                z.resize_(2, 4)
                z.add_(1)
            return self.b(z.clone()) + y.sum()

    return Model(), x(), {}


@hard
def many_tensors_at_once() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            values = [self.a(x).detach(), self.b(x).detach()]
            torch._foreach_mul_(values, 2.0)
            more = torch._foreach_add(values, 1.0)
            return torch.stack([*values, *more]).sum(0)

    return Model(), x(), {}


@hard
def views_of_views_and_interleaved_writes() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).clone()
            y.t()[1:3].unsqueeze(0).mul_(3)
            y.view(2, 6)[:, ::2] = 0
            y.diagonal().add_(1)
            torch.as_strided(y, (2, 2), (4, 1)).copy_(torch.ones(2, 2))
            y[y > 1] = -1
            y.index_put_((torch.tensor([0]),), torch.zeros(4))
            y.masked_fill_(y == 0, 7)
            return self.b(y.unfold(1, 2, 1).sum(-1) @ torch.ones(3, 4))

    return Model(), x(), {}


@hard
def input_and_buffer_written() -> Case:
    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))
            self.register_buffer("late", None)

        def forward(self, x: Tensor) -> Tensor:
            self.seen.add_(x.detach().sum(0))
            self.seen = self.seen * 1
            if self.late is None:
                self.late = torch.ones(4)
            return self.a(x) + self.seen + self.late

    return Model(), x(), {}


@hard
def copies_inside_the_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            twin = copy.deepcopy(self.a)
            with torch.no_grad():
                twin.weight.mul_(2)
            stored = io.BytesIO()
            torch.save(x.detach(), stored)
            stored.seek(0)
            again = pickle.loads(pickle.dumps(torch.load(stored)))
            return twin(x) + self.b(again) + copy.copy(x)

    return Model(), x(), {}
