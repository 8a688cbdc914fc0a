"""Models with what trips recorders: control flow, containers, memory, transforms, wrappers; as small as they get."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.rnn import pack_sequence
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
HARD: dict[str, Callable[[], Case]] = {}


def hard(make: Callable[[], Case]) -> Callable[[], Case]:
    HARD[make.__name__] = make
    return make


class Two(nn.Module):
    """Two linear layers for subclasses to use."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)


def x() -> tuple[Tensor]:
    return (torch.randn(3, 4),)


# ---- control flow


@hard
def generator_of_outputs() -> Case:
    class Model(Two):
        def steps(self, x: Tensor) -> Iterator[Tensor]:
            for layer in (self.a, self.b, self.a):
                x = layer(x)
                yield x

        def forward(self, x: Tensor) -> list[Tensor]:
            return list(self.steps(x))

    return Model(), x(), {}


@hard
def generator_that_the_caller_drains() -> Case:
    class Inner(Two):
        def forward(self, x: Tensor) -> Iterator[Tensor]:
            yield self.a(x)
            yield self.b(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            return sum(self.inner(x), torch.zeros(()))

    return Model(), x(), {}


@hard
def recursion_over_one_module() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fold = nn.Linear(4, 4)

        def forward(self, x: Tensor, depth: int = 3) -> Tensor:
            return self(self.fold(x), depth - 1) if depth else x

    return Model(), x(), {}


@hard
def tree_recursion() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.join = nn.Bilinear(4, 4, 4)

        def forward(self, tree: Any) -> Tensor:
            return tree if isinstance(tree, Tensor) else self.join(self(tree[0]), self(tree[1]))

    leaf = torch.randn(1, 4)
    return Model(), (((leaf, leaf + 1), (leaf, (leaf, leaf))),), {}


@hard
def layer_drop() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                if torch.rand(()).item() > 0.4:
                    x = layer(x)
            return x * 1

    return Model().train(), x(), {}


@hard
def exception_caught_inside() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            try:
                x = self.a(x)
                x @ torch.ones(5, 5)
            except RuntimeError:
                x = self.b(x)
            return x

    return Model(), x(), {}


@hard
def module_called_through_its_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a.forward(x))

    return Model(), x(), {}


@hard
def context_manager_and_closure() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            def run(layer: nn.Module) -> Callable[[Tensor], Tensor]:
                return lambda value: layer(value).tanh()

            with torch.no_grad():
                y = run(self.a)(x)
            with torch.inference_mode():
                z = run(self.b)(x).clone()
            return y + torch.tensor(z.tolist())

    return Model(), x(), {}


@hard
def conditions_as_operators() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,))
            return self.a(x)

    return Model(), x(), {}


@hard
def loops_as_operators() -> Case:
    from torch._higher_order_ops.while_loop import while_loop

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            _, y = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))
            return self.a(y)

    return Model().requires_grad_(False), x(), {}


# ---- inputs and outputs


class Pair(NamedTuple):
    left: Tensor
    right: dict[str, Tensor]


@dataclass
class Batch:
    values: Tensor
    more: Pair
    flag: bool = True
    label: str = "x"


@hard
def dataclass_in_and_named_tuple_out() -> Case:
    class Model(Two):
        def forward(self, batch: Batch, *, scale: float, nothing: None = None) -> Pair:
            return Pair(self.a(batch.values) * scale, {"b": self.b(batch.more.left), "c": batch.more.right["z"]})

    value = torch.randn(3, 4)
    return Model(), (Batch(value, Pair(value * 2, {"z": value * 3})),), {"scale": 0.5}


class Holder:
    """A plain object with a property that must not be called."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    @property
    def trap(self) -> Tensor:
        raise AssertionError("a property was read")


@hard
def plain_objects() -> Case:
    class Model(Two):
        def forward(self, holder: Holder) -> Holder:
            return Holder(self.a(holder.value))

    return Model(), (Holder(torch.randn(3, 4)),), {}


@hard
def no_inputs_and_scalar_outputs() -> Case:
    class Model(Two):
        def forward(self) -> tuple[Tensor, int, None, str]:
            return self.a(torch.ones(2, 4)).sum(), 3, None, "done"

    return Model(), (), {}


@hard
def parameters_in_dictionaries_and_lists() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterDict({"w": nn.Parameter(torch.randn(4, 4)), "v": nn.Parameter(torch.randn(4))})
            self.rows = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(3)])
            self.parts = nn.ModuleDict({"relu": nn.ReLU(), "x.y".replace(".", "_"): nn.Linear(4, 4)})

        def forward(self, x: Tensor) -> Tensor:
            x = x @ self.weights["w"] + self.weights["v"]
            for row in self.rows:
                x = x * row
            for part in self.parts.values():
                x = part(x)
            return x

    return Model(), x(), {}


@hard
def tied_and_shared() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 4)
            self.layer = nn.Linear(4, 4)
            self.same = self.layer
            self.out = nn.Linear(4, 9, bias=False)
            self.out.weight = self.embedding.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.same(self.layer(self.embedding(ids))))

    return Model(), (torch.randint(0, 9, (2, 3)),), {}


# ---- memory


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


# ---- kinds of tensors


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


# ---- operators and transforms


@torch.library.custom_op("tbps_hard::scaled", mutates_args=())
def scaled(value: Tensor, factor: float) -> Tensor:
    return value * factor


@scaled.register_fake
def _(value: Tensor, factor: float) -> Tensor:
    return torch.empty_like(value)


scaled.register_autograd(
    lambda ctx, gradient: (gradient * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


@torch.library.custom_op("tbps_hard::shift_", mutates_args=("value",))
def shift_(value: Tensor, by: float) -> None:
    value.add_(by)


@hard
def library_operators() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            y = scaled(self.a(x), 2.0)
            z = y.detach().clone()
            shift_(z, 1.0)
            return torch.ops.aten.relu.default(y) + z + torch.ops.tbps_hard.scaled(y, 0.5)

    return Model(), x(), {}


class Clip(torch.autograd.Function):
    """Computes with numpy and returns two tensors, one of them without a gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, low: float) -> tuple[Tensor, Tensor]:
        kept = value.detach().numpy() > low
        mask = torch.from_numpy(kept)
        ctx.save_for_backward(mask)
        ctx.mark_non_differentiable(mask)
        return torch.from_numpy(value.detach().numpy().clip(low)), mask

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return gradient * mask, None


@hard
def autograd_function_with_numpy() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            value, mask = Clip.apply(self.a(x), 0.0)
            return self.b(value), mask

    return Model(), x(), {}


@hard
def functorch_transforms() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            rows = torch.func.vmap(lambda row: self.a(row) * row.sum())(x)
            gradient = torch.func.grad(lambda v: self.b(v).square().sum())(x)
            _, tangent = torch.func.jvp(lambda v: v.sin(), (x,), (torch.ones_like(x),))
            jacobian = torch.func.jacrev(lambda v: (v * v).sum(0))(x)
            return rows + gradient + tangent + jacobian.sum()

    return Model(), x(), {}


@hard
def functional_call() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            weights = {name: value * 2 for name, value in self.a.named_parameters()}
            return torch.func.functional_call(self.a, weights, (x,)) + self.b(x)

    return Model(), x(), {}


@hard
def ensemble_of_stacked_modules() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.members = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            parameters, buffers = torch.func.stack_module_state(list(self.members))
            base = copy.deepcopy(self.members[0])

            def run(p: Any, b: Any, value: Tensor) -> Tensor:
                return torch.func.functional_call(base, (p, b), (value,))

            return torch.func.vmap(run, in_dims=(0, 0, None))(parameters, buffers, x)

    return Model(), x(), {}


@hard
def gradient_inside_the_forward() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self.a(inner).square().sum(), inner, create_graph=True)
            return self.b(x - 0.1 * slope)

    return Model(), x(), {}


@hard
def flexible_attention() -> Case:
    from torch.nn.attention.flex_attention import flex_attention

    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            q = self.a(x).view(1, 1, 3, 4)
            return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j)).sum(1)

    return Model().requires_grad_(False), x(), {}


@hard
def checkpoint_reentrant() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(lambda v: self.b(F.dropout(self.a(v), 0.5)), x, use_reentrant=True)

    return Model().train(), (torch.randn(3, 4, requires_grad=True),), {}


@hard
def checkpoint_sequence() -> Case:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)

    return Model().train(), (torch.randn(3, 4, requires_grad=True),), {}


# ---- modules with something around them


@hard
def hooks_that_change_values() -> Case:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU())
    model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model[1].register_forward_hook(lambda module, args, output: output + args[0])
    model[2].register_forward_hook(lambda module, args, kwargs, output: (output, output * 2), with_kwargs=True)
    model[0].register_full_backward_hook(lambda module, before, after: None)
    return model, x(), {}


@hard
def parametrized_layers() -> Case:
    class Symmetric(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.triu() + weight.triu(1).T

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            parametrize.register_parametrization(self.a, "weight", Symmetric())
            parametrizations.weight_norm(self.b)
            self.c = parametrizations.orthogonal(nn.Linear(4, 4))
            self.d = parametrizations.spectral_norm(nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            with parametrize.cached():
                x = self.a(self.a(x))
            return self.d(self.c(self.b(x)))

    return Model().train(), x(), {}


@hard
def low_rank_adapters() -> Case:
    class Adapter(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base_layer = base.requires_grad_(False)
            self.lora_A = nn.ModuleDict({"default": nn.Linear(4, 2, bias=False)})
            self.lora_B = nn.ModuleDict({"default": nn.Linear(2, 4, bias=False)})
            self.active = ["default"]

        def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            result = self.base_layer(x, *args, **kwargs)
            for name in self.active:
                result = result + self.lora_B[name](self.lora_A[name](x)) * 0.5
            return result

    return nn.Sequential(Adapter(nn.Linear(4, 4)), nn.ReLU(), Adapter(nn.Linear(4, 4))), x(), {}


@hard
def lazy_layers() -> Case:
    model = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    model(torch.randn(3, 4))
    return model.train(), x(), {}


@hard
def compiled_part_and_scripted_part() -> Case:
    @torch.jit.script
    def gelu_like(value: Tensor) -> Tensor:
        return value * torch.sigmoid(1.702 * value)

    class Model(Two):
        def __init__(self) -> None:
            super().__init__()
            self.compiled = torch.compile(nn.Linear(4, 4), backend="eager")
            self.scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))

        def forward(self, x: Tensor) -> Tensor:
            return self.scripted(self.compiled(gelu_like(self.a(x))))

    return Model().requires_grad_(False), x(), {}


@hard
def scripted_model() -> Case:
    return torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.1)).train()), x(), {}


@hard
def quantisation_aware_training() -> Case:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).train()
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")  # its observers grow their buffers
    return torch.ao.quantization.prepare_qat(model), x(), {}


@hard
def exported_and_traced_modules() -> Case:
    import torch.fx

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.exported = torch.export.export(plain, (torch.randn(3, 4),)).module()
            self.symbolic = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))

        def forward(self, x: Tensor) -> Tensor:
            return self.symbolic(self.exported(x))

    return Model(), x(), {}


@hard
def modules_made_while_running() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            if not hasattr(self, "late"):
                self.late = nn.Linear(4, 4)
            unregistered = [nn.Softmax(-1)]
            return unregistered[0](self.late(self.a(x)))

    return Model(), x(), {}


@hard
def other_threads() -> Case:
    class Model(Two):
        def forward(self, x: Tensor) -> Tensor:
            with ThreadPoolExecutor(1) as pool:
                elsewhere = pool.submit(lambda: (self.b(x.detach()).detach(), threading.get_ident())).result()
            return self.a(x) + elsewhere[0]

    return Model(), x(), {}


@hard
def encoder_on_its_fast_path_with_padding() -> Case:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    model = nn.TransformerEncoder(layer, 2).eval().requires_grad_(False)
    return model, (torch.randn(2, 3, 4),), {"src_key_padding_mask": mask}


@hard
def two_hundred_layers_deep() -> Case:
    model: nn.Module = nn.Linear(4, 4)
    for _ in range(200):
        model = nn.Sequential(model)
    return model, x(), {}


@hard
def two_thousand_layers() -> Case:
    return nn.Sequential(*[nn.Identity() if k % 10 else nn.Linear(4, 4) for k in range(2000)]), x(), {}
