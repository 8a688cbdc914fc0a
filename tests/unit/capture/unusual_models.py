"""Models that do unusual things with memory, with modules, with Python and with autograd; as small as they get."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copy
import functools
import itertools
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import stateless
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils import checkpoint as checkpointing

from tests.unit.capture.hard_models import Case, Two, x

UNUSUAL: dict[str, Any] = {}


def unusual(make: Any) -> Any:
    UNUSUAL[make.__name__] = make
    return make


# ---- memory


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


# ---- modules


@unusual
def forward_replaced_on_the_instance() -> Case:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    old = model[0].forward
    model[0].forward = types.MethodType(lambda self, x: old(x) * 2, model[0])
    return model, x(), {}


@unusual
def call_overridden() -> Case:
    class Counted(nn.Linear):
        def __call__(self, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return super().__call__(value, *args, **kwargs) + 1  # type: ignore[no-any-return]

    class Bypassing(nn.Linear):
        def __call__(self, value: Tensor) -> Tensor:
            return self.forward(value) * 2

    return nn.Sequential(Counted(4, 4), Bypassing(4, 4)), x(), {}


@unusual
def partial_methods_and_static_functions() -> Case:
    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.steps = [functools.partial(self.scaled, by=2.0), self.a.forward, F.relu, torch.Tensor.tanh]

        @staticmethod
        def scaled(value: Tensor, by: float) -> Tensor:
            return value * by

        def forward(self, x: Tensor) -> Tensor:
            return functools.reduce(lambda value, step: step(value), self.steps, x)

    return Model(), x(), {}


@unusual
def module_deleted_and_another_put_in() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            x = self.a(x)
            kept = self.b
            del self.b
            try:
                self.c = nn.Identity()
                return self.c(kept(x))
            finally:
                del self.c
                self.b = kept

    return Model(), x(), {}


@unusual
def module_hidden_in_a_closure_and_in_a_list() -> Case:
    hidden = nn.Linear(4, 4)

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.plain = [nn.Linear(4, 4)]

        def forward(self, x: Tensor) -> Tensor:
            return hidden(self.plain[0](self.a(x)))

    return Model(), x(), {}


@unusual
def module_that_holds_its_parent() -> Case:
    class Child(nn.Module):
        def __init__(self, parent: nn.Module) -> None:
            super().__init__()
            self.parents = [parent]

        def forward(self, x: Tensor) -> Tensor:
            return self.parents[0].a(x)  # type: ignore[no-any-return, operator]

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.child = Child(self)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.child(self.a(x)))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def shared_under_two_parents_and_called_in_both() -> Case:
    shared = nn.Linear(4, 4)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = nn.Sequential(shared, nn.ReLU())
            self.right = nn.Sequential(nn.Tanh(), shared)

        def forward(self, x: Tensor) -> Tensor:
            return self.left(x) + self.right(x) + shared(x)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def modules_as_keys_and_iterators() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("even", "odd")})
            self.order = nn.ParameterDict({"even": nn.Parameter(torch.ones(4)), "odd": nn.Parameter(torch.zeros(4))})

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            names = itertools.cycle(self.experts)
            found: dict[str, Tensor] = collections.OrderedDict()
            for row, name in zip(x, names, strict=False):
                found[name] = found.get(name, 0) + self.experts[name](row) * self.order[name]
            return found

    return Model(), x(), {}


@unusual
def switches_to_evaluation_inside() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))

        def forward(self, x: Tensor) -> Tensor:
            trained = self.net(x)
            self.net.eval()
            try:
                with torch.no_grad():
                    target = self.net(x)
            finally:
                self.net.train()
            return F.mse_loss(trained, target)

    return Model().train(), x(), {}


@unusual
def moving_average_teacher_inside() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student = nn.Linear(4, 4)
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                for mine, theirs in zip(self.teacher.buffers(), self.student.buffers(), strict=True):
                    mine.lerp_(theirs, 0.1)
                target = self.teacher(x).softmax(-1)
            return -(target * self.student(x).log_softmax(-1)).sum(-1).mean()

    return Model(), x(), {}


@unusual
def hooks_that_replace_run_and_remove_themselves() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            kept: list[Tensor] = []

            def once(module: nn.Module, args: Any, output: Tensor) -> Tensor:
                handle.remove()
                kept.append(output)
                return output * 2

            handle = self.a.register_forward_hook(once)
            return self.b(self.a(self.a(x))) + kept[0]

    return Model(), x(), {}


@unusual
def feature_extractor_by_hooks() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
            self.features: dict[str, Tensor] = {}
            for name, layer in self.body.named_children():
                layer.register_forward_hook(functools.partial(self.keep, name))

        def keep(self, name: str, module: nn.Module, args: Any, output: Tensor) -> None:
            self.features[name] = output

        def forward(self, x: Tensor) -> list[Tensor]:
            self.features.clear()
            self.body(x)
            return list(self.features.values())

    return Model(), x(), {}


@unusual
def synchronised_batch_norm_in_evaluation() -> Case:
    model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))
    return model.eval(), (torch.randn(2, 3, 4, 4),), {}


@unusual
def replaced_state_and_stateless_call() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            fast = {name: value - 0.1 * torch.ones_like(value) for name, value in self.a.named_parameters()}
            return torch.func.functional_call(self.a, fast, (self.b(x),))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def parametrized_with_cache_and_buffers_that_are_none() -> Case:
    class Symmetric(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.triu() + weight.triu(1).T

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4, bias=False)
            nn.utils.parametrize.register_parametrization(self.layer, "weight", Symmetric())
            self.register_buffer("nothing", None)
            self.register_parameter("missing", None)

        def forward(self, x: Tensor) -> Tensor:
            with nn.utils.parametrize.cached():
                return self.layer(self.layer(x))  # type: ignore[no-any-return]

    return Model(), x(), {}


# ---- Python


@dataclass
class State:
    hidden: Tensor
    history: list[Tensor] = field(default_factory=list)


@unusual
def state_object_mutated_by_children() -> Case:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(4, 4)

        def forward(self, x: Tensor, state: State) -> None:
            state.hidden = self.cell(x, state.hidden)
            state.history.append(state.hidden)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = Step()

        def forward(self, x: Tensor) -> State:
            state = State(torch.zeros(3, 4))
            for _ in range(3):
                self.step(x, state)
            return state

    return Model(), x(), {}


@unusual
def mutual_recursion() -> Case:
    class Model(Two):
        def even(self, x: Tensor, depth: int) -> Tensor:
            return x if depth == 0 else self.odd(self.a(x), depth - 1)

        def odd(self, x: Tensor, depth: int) -> Tensor:
            return x if depth == 0 else self.even(self.b(x), depth - 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.even(x, 5)

    return Model(), x(), {}


@unusual
def generators_that_send_and_yield_from() -> Case:
    class Model(Two):
        def inner(self) -> Iterator[Any]:
            value = yield
            while True:
                value = yield self.a(value)

        def outer(self) -> Iterator[Any]:
            yield from self.inner()

        def forward(self, x: Tensor) -> Tensor:
            steps: Any = self.outer()
            next(steps)
            for _ in range(3):
                x = steps.send(x)
            steps.close()
            return self.b(x)

    return Model(), x(), {}


@unusual
def coroutines_that_interleave() -> Case:
    class Model(Two):
        async def branch(self, layer: nn.Module, x: Tensor) -> Tensor:
            for _ in range(2):
                x = layer(x)
                await asyncio.sleep(0)
            return x

        async def both(self, x: Tensor) -> list[Tensor]:
            return await asyncio.gather(self.branch(self.a, x), self.branch(self.b, x))

        def forward(self, x: Tensor) -> Tensor:
            loop = asyncio.new_event_loop()
            try:
                left, right = loop.run_until_complete(self.both(x))
            finally:
                loop.close()
            return left + right

    return Model(), x(), {}


@unusual
def exceptions_as_control_flow() -> Case:
    class Found(Exception):
        pass

    class Searching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.layer(x)
            raise Found(x)

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.search = Searching()

        def forward(self, x: Tensor) -> Tensor:
            with contextlib.suppress(RuntimeError):
                self.a(x[:, :2])
            try:
                self.search(self.a(x))
            except Found as found:
                x = found.args[0]
            return self.b(x)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def match_walrus_and_comprehensions() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            match x.shape:
                case (rows, 4) if (y := self.a(x)).shape[0] == rows:
                    x = y
                case _:
                    x = self.b(x)
            return torch.stack([value for row in x for value in (row.relu(), row.tanh()) if value.sum() == value.sum()])

    return Model(), x(), {}


@unusual
def protocols_and_properties_that_compute() -> Case:
    class Scaled(Protocol):
        @property
        def scale(self) -> Tensor: ...

    class Model(Two):
        @property
        def scale(self) -> Tensor:
            return self.a.weight.norm()

        @functools.cached_property
        def basis(self) -> Tensor:
            return torch.eye(4) * 2

        def forward(self, x: Tensor) -> Tensor:
            mine: Scaled = self
            return x @ self.basis * mine.scale + self.basis[0]

    return Model(), x(), {}


@unusual
def numbers_that_leave_and_come_back() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            size = int(y.abs().sum().item()) % 2 + 1
            table = torch.tensor(y.tolist())
            return self.b(table[:size]) + float(np.asarray(y.detach()).mean())

    return Model(), x(), {}


# ---- autograd


@unusual
def backward_inside_the_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                probe = x.detach().clone().requires_grad_()
                self.a(probe).square().sum().backward(inputs=[probe])
            assert probe.grad is not None
            return self.b(x + 0.1 * probe.grad.sign())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def gradient_penalty() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            x = x.detach().requires_grad_()
            score = self.b(self.a(x).tanh()).sum()
            (gradient,) = torch.autograd.grad(score, x, create_graph=True)
            return score + (gradient.norm(dim=1) - 1).square().mean()

    return Model(), x(), {}


@unusual
def straight_through_estimator() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            soft = self.a(x).softmax(-1)
            hard = F.one_hot(soft.argmax(-1), 4).to(soft)
            return self.b(hard + soft - soft.detach())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def function_with_its_own_forward_mode_and_several_outputs() -> Case:
    class SplitAndScale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor, factor: float) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
            low, high = value.clamp(max=0), value.clamp(min=0)
            mask = value > 0
            ctx.mark_non_differentiable(mask)
            ctx.factor = factor
            return low * factor, high, mask

        @staticmethod
        def backward(ctx: Any, low: Tensor, high: Tensor, _: Any) -> tuple[Tensor, None]:  # type: ignore[override]
            return low * ctx.factor + high, None

    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:  # type: ignore[override]
            ctx.mark_dirty(value)
            return value.mul_(2)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
            return gradient * 2

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            low, high, mask = SplitAndScale.apply(self.a(x), 0.1)
            return torch.where(mask, InPlace.apply(high.clone()), low)  # type: ignore[no-any-return, no-untyped-call]

    return Model(), x(), {}


@unusual
def reentrant_checkpoints_in_each_other() -> Case:
    class Model(Two):
        def inner(self, x: Tensor) -> Tensor:
            return checkpointing.checkpoint(self.a, x, use_reentrant=False)  # type: ignore[no-any-return]

        def forward(self, x: Tensor) -> Tensor:
            y = checkpointing.checkpoint(lambda value: self.b(self.inner(value)), x, use_reentrant=False)
            return y * 2  # type: ignore[no-any-return]

    return Model(), (torch.randn(3, 4, requires_grad=True),), {}


@unusual
def saved_tensors_are_packed() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
                return self.b(self.a(x).tanh())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def forward_mode_and_jacobian() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            value, tangent = torch.func.jvp(lambda v: self.a(v).sin(), (x,), (torch.ones_like(x),))
            jacobian = torch.func.jacrev(lambda v: self.b(v).sum())(x)
            each = torch.func.vmap(torch.func.grad(lambda v: self.a(v).square().sum()))(x)
            return value + tangent + jacobian + each  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def inference_mode_and_gradients_alternate() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.inference_mode():
                weights = self.a(x).softmax(-1)
            weights = weights.clone()
            with torch.set_grad_enabled(False):
                bias = self.b(x)
                with torch.enable_grad():
                    y = self.a(x)
            return y * weights + bias  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def autocast_on_and_off() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                y = self.a(x)
                with torch.autocast("cpu", enabled=False):
                    z = self.b(y.float())
                y = self.a(z)
            return y.float() + z  # type: ignore[no-any-return]

    return Model(), x(), {}


# ---- kinds of tensors


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
