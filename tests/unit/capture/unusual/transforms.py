"""Models that are transformed while they run: functorch, higher-order operators, compilers, scripts, subclasses."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.unit.capture.hard.registry import Case, Two, x
from tests.unit.capture.unusual.registry import unusual


@unusual
def mapped_twice_over_stacked_models() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.members = nn.ModuleList(nn.Linear(4, 3) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            stacked, _ = torch.func.stack_module_state(list(self.members))
            call = functools.partial(torch.func.functional_call, self.members[0])
            by_member = torch.vmap(torch.vmap(lambda p, v: call(p, (v,)), in_dims=(None, 0)), in_dims=(0, None))
            return by_member(stacked, x)  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def mapped_with_random_numbers() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            noisy = torch.vmap(lambda row: self.a(row + torch.randn(4)), randomness="different")(x)
            same = torch.vmap(lambda row: F.dropout(self.b(row)), randomness="same")(x)
            return noisy + same  # type: ignore[no-any-return]

    return Model().train(), x(), {}


@unusual
def jacobians_in_both_directions() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            def f(row: Tensor) -> Tensor:
                return self.a(row).sin()

            forwards = torch.vmap(torch.func.jacfwd(f))(x)
            backwards = torch.vmap(torch.func.jacrev(f))(x)
            (value, pull) = torch.func.vjp(f, x)
            return self.b((forwards + backwards).sum(1) + pull(value)[0])  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def linearized_and_dual_numbers() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            value, along = torch.func.linearize(lambda v: self.a(v).tanh(), x)
            with torch.autograd.forward_ad.dual_level():
                dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
                tangent = torch.autograd.forward_ad.unpack_dual(self.b(dual)).tangent
            return value + along(torch.ones_like(x)) + tangent  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def functionalized_writes() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            def body(value: Tensor) -> Tensor:
                y = value.clone()
                y[0].mul_(2)
                y.view(-1)[1:3] = 1
                return y

            return self.b(torch.func.functionalize(body)(self.a(x)))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def scripted_functions_with_forks_and_loops() -> Case:
    @torch.jit.script
    def loop(value: Tensor, weight: Tensor) -> Tensor:
        total = torch.zeros_like(value)
        for k in range(3):
            if k % 2 == 0:
                total += value @ weight
            else:
                total = total * 2
        return total

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, value: Tensor) -> Tensor:
            later = torch.jit.fork(self.layer, value)
            now = self.layer(value * 2)
            return torch.jit.wait(later) + now  # type: ignore[no-any-return]

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.jit.script(Inner())

        def forward(self, x: Tensor) -> Tensor:
            later = torch.jit.fork(self.b, x)
            return self.inner(loop(self.a(x), self.a.weight)) + torch.jit.wait(later)  # type: ignore[no-any-return]

    return Model().requires_grad_(False), x(), {}


@unusual
def traced_module_among_others() -> Case:
    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.traced = torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()), torch.randn(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.traced(self.a(x)))  # type: ignore[no-any-return]

    return Model().requires_grad_(False), x(), {}


@unusual
def compiled_methods_and_disabled_regions() -> Case:
    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.step = torch.compile(self.one, backend="eager", dynamic=True)

        def one(self, value: Tensor) -> Tensor:
            return self.a(value).relu()

        @torch.compiler.disable
        def plain(self, value: Tensor) -> Tensor:
            return self.b(value)  # type: ignore[no-any-return]

        def forward(self, x: Tensor) -> Tensor:
            return self.plain(self.step(x)) + self.step(x[:2]).sum()  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def associative_scan_as_an_operator() -> Case:
    from torch._higher_order_ops.associative_scan import associative_scan

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return associative_scan(lambda a, b: a * 0.5 + b, self.a(x), 0, combine_mode="generic")  # type: ignore[no-any-return]

    return Model().requires_grad_(False), x(), {}


@unusual
def interleaved_modes_of_the_user() -> Case:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ops.aten.tanh.default else result

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with Doubling():
                y = self.a(x).tanh()
            with torch.overrides.BaseTorchFunctionMode():
                return self.b(y).tanh()  # type: ignore[no-any-return]

    return Model(), x(), {}


class Scaled(Tensor):
    """A weight in eight bits with its scale, as quantisation libraries keep it."""

    codes: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, codes: Tensor, scale: Tensor) -> Scaled:
        return Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)  # type: ignore[attr-defined, no-any-return]

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Scaled:
        return cls(inner["codes"], inner["scale"])

    def plain(self) -> Tensor:
        return self.codes.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return cls(args[0].codes, args[0].scale)
        if func is torch.ops.aten.t.default:
            return cls(args[0].codes.t(), args[0].scale.t())
        plain = torch.utils._pytree.tree_map_only(Scaled, Scaled.plain, (list(args), kwargs or {}))
        return func(*plain[0], **plain[1])


@unusual
def weights_of_a_quantising_subclass() -> Case:
    model = Two()
    for layer in (model.a, model.b):
        scale = layer.weight.detach().abs().amax(1, keepdim=True) / 127
        codes = (layer.weight.detach() / scale).round().to(torch.int8)
        layer.weight = nn.Parameter(Scaled(codes, scale), requires_grad=False)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Tensor) -> Tensor:
            return self.inner.b(self.inner.a(x).relu())  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def subclass_with_functions_of_its_own() -> Case:
    class Meters(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.__matmul__:
                with torch._C.DisableTorchFunctionSubclass():
                    return (args[0].as_subclass(Tensor) @ args[1].as_subclass(Tensor)).as_subclass(cls)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = x.as_subclass(Meters) @ self.a.weight
            return self.b(y.clone().add_(1)).as_subclass(Tensor)  # type: ignore[no-any-return]

    return Model(), x(), {}


@torch.library.custom_op("tbps_unusual::split_and_fill", mutates_args=("into", "others"))
def split_and_fill(value: Tensor, into: Tensor, others: list[Tensor], factor: float = 2.0) -> tuple[Tensor, Tensor]:
    into.copy_(value * factor)
    for other in others:
        other.add_(value.sum())
    return value[:1].clone(), value[1:].clone()


@unusual
def library_operators_that_write_and_return_lists() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).detach()
            into, others = torch.zeros_like(y), [torch.zeros(2), torch.zeros(3)]
            first, rest = split_and_fill(y, into, others, factor=0.5)
            return self.b(into).sum() + others[1] + first.sum() + rest.sum()  # type: ignore[no-any-return]

    return Model(), x(), {}


library = torch.library.Library("tbps_aliases", "FRAGMENT")
library.define("first_rows(Tensor(a) x, int n) -> Tensor(a)")
library.define("halve_(Tensor(a!) x) -> Tensor(a!)")
library.impl("first_rows", lambda value, n: value[:n], "CompositeExplicitAutograd")
library.impl("halve_", lambda value: value.mul_(0.5), "CompositeExplicitAutograd")


@unusual
def library_operators_that_return_views() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x).detach().clone()
            rows = torch.ops.tbps_aliases.first_rows(y, 2)
            torch.ops.tbps_aliases.halve_(rows)
            return self.b(y) + rows.sum()  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def proxies_that_trace_within_the_forward() -> Case:
    from torch.fx.experimental.proxy_tensor import make_fx

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            graph = make_fx(lambda v: v.sin() + v.cos())(torch.ones_like(x))
            return self.b(graph(self.a(x)))  # type: ignore[no-any-return]

    return Model(), x(), {}


@unusual
def fake_tensors_within_the_forward() -> Case:
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with FakeTensorMode():
                size = F.linear(torch.empty(x.shape), torch.empty(7, 4)).shape[1]
            on_meta = torch.empty(2, size, device="meta").t()
            return self.a(x) * size + on_meta.shape[0]  # type: ignore[no-any-return]

    return Model(), x(), {}
