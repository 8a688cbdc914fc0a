"""Values that reach a module by ways that leave the dispatcher, or that only look like another value."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint_sequential

from tb_plugin_structure.capture import capture
from tb_plugin_structure.records.schema import ORIGINS
from tb_plugin_structure.records.structure import Structure


class Numpy(torch.autograd.Function):
    """Computes where no kernel shows."""

    @staticmethod
    def forward(ctx: Any, i: Tensor) -> Tensor:
        return torch.from_numpy(i.detach().numpy() * 2)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2


class Two(nn.Module):
    """`a`, then something, then `b`."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(self.between(self.a(x)))
        return y


def sources(structure: Structure, path: str) -> set[str]:
    """Module paths, or origins, of the values that reach a module's kernels from elsewhere, glue looked through."""
    kernels, tensors = structure.kernels, structure.tensors
    operator_call = structure.operators["call"].tolist()
    owner = [structure.call_path(operator_call[operator]) for operator in kernels["operator"].tolist()]
    producer, origin = tensors["producer"].tolist(), tensors["origin"].tolist()
    inputs, also = kernels.column_lists("inputs"), kernels.column_lists("also_reads")
    found: set[str] = set()
    todo = [row for kernel, at in enumerate(owner) if at == path for row in (*inputs[kernel], *also[kernel])]
    seen = set(todo)
    while todo:
        row = todo.pop()
        kernel = producer[row]
        if kernel < 0:
            if ORIGINS[origin[row]] == "input":
                found.add("input")
        elif owner[kernel] != path and owner[kernel]:
            found.add(owner[kernel])
        else:
            before = [other for other in (*inputs[kernel], *also[kernel]) if other not in seen]
            seen.update(before)
            todo += before
    return found


def written_slice(y: Tensor) -> Tensor:
    buffer = torch.zeros(2, 4)
    buffer[:, :2] = y[:, 2:]
    return buffer


def cast_that_does_nothing(y: Tensor) -> Tensor:
    return y.to(torch.float32)


def subclass(y: Tensor) -> Tensor:
    class Mine(torch.Tensor):
        pass

    return y.as_subclass(Mine)


@pytest.mark.parametrize(
    "between",
    [
        Numpy.apply,
        lambda y: Numpy.apply(Numpy.apply(y).view(8).view(2, 4)),
        lambda y: torch.from_numpy(y.detach().numpy()),
        lambda y: (y * 1).data,
        lambda y: nn.Parameter(y.detach() * 1),
        written_slice,
        cast_that_does_nothing,
        subclass,
        lambda y: torch.add(y.detach(), 1, out=torch.empty(2, 4)),
        lambda y: torch._foreach_mul([y.detach()], 2.0)[0],
        lambda y: torch.vmap(torch.sin)(y),
    ],
    ids=[
        "numpy in an autograd function",
        "two of them",
        "numpy's view",
        "data",
        "parameter",
        "write to a slice",
        "no-op cast",
        "subclass",
        "out=",
        "foreach",
        "vmap",
    ],
)
def test_value_is_followed(between: Callable[[Tensor], Tensor]) -> None:
    structure = capture(Two(between), (torch.randn(2, 4),))
    assert sources(structure, "b") == {"a"}


def test_detached_copy_of_numbers_is_a_constant() -> None:
    structure = capture(Two(lambda y: torch.tensor(y.tolist())), (torch.randn(2, 4),))
    assert sources(structure, "b") == set()


def test_reentrant_checkpointing_invents_no_edge() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = checkpoint_sequential(self.n, 2, x, use_reentrant=True)
            return y

    structure = capture(Model(), (torch.randn(2, 4).requires_grad_(),))
    assert sources(structure, "n.2") == {"n.1"}


def test_cast_that_returns_its_input_is_no_producer() -> None:
    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.to(torch.float32)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(4, 4), Norm(), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x)
            self.norm(h)
            y: Tensor = self.b(h)
            return y

    assert sources(capture(Model(), (torch.randn(2, 4),)), "b") == {"a"}


def test_written_after_return_is_flagged() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.act(self.a(x))
            return y

    structure = capture(Model(), (torch.randn(2, 4),))
    flags = structure.module_calls["modified_after_return"].tolist()
    assert dict(zip(map(structure.call_path, range(3)), flags, strict=True)) == {"": 0, "a": 1, "act": 0}


def test_memory_that_is_used_again_is_no_write_into_what_lay_there_before() -> None:
    """Freed activations give their addresses to later ones, which in-place activations then write."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(4, 4, 1, bias=False) for _ in range(12))
            self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(12))

        def forward(self, x: Tensor) -> Tensor:
            for layer, norm in zip(self.layers, self.norms, strict=True):
                x = norm(layer(x)).relu_()
            return x

    for _ in range(3):
        with torch.no_grad():
            structure = capture(Model().eval(), (torch.randn(2, 4, 8, 8),))
        flags = structure.module_calls["modified_after_return"].tolist()
        written = {structure.call_path(call) for call, flag in enumerate(flags) if flag}
        assert written == {f"norms.{number}" for number in range(12)}


def test_scripted_module_is_one_node_with_a_note() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.l(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, and still used
        scripted = torch.jit.script(Inner())
    structure = capture(nn.Sequential(nn.Linear(4, 4), scripted), (torch.randn(2, 4),))
    assert structure.module_classes[structure.module_row["1"]] == "Inner"
    assert structure.modules["calls"][structure.module_row["1"]] == 1
    assert "TorchScript" in structure.header.notes[0]


def moved_by_tensor(y: Tensor) -> Tensor:
    kept = y.detach().clone()
    torch.empty(0).set_(kept).add_(1)
    return kept


def moved_by_storage(y: Tensor) -> Tensor:
    kept = torch.zeros_like(y)
    rows = torch.empty(0).set_(kept.untyped_storage(), 4, (2, 4), (4, 1))
    rows.copy_(y[:2].detach())
    return kept


@pytest.mark.parametrize("between", [moved_by_tensor, moved_by_storage])
def test_a_tensor_that_was_set_into_the_memory_of_another_writes_that_one(between: Callable[[Tensor], Tensor]) -> None:
    """``set_`` writes nothing; what is written afterwards reaches whoever reads the memory."""
    assert sources(capture(Two(between), torch.randn(3, 4)), "b") >= {"a"}


def test_an_optimizer_that_the_forward_steps_makes_the_weights_that_it_reads_next() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.optimizer = torch.optim.SGD(self.a.parameters(), 0.1)

        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                self.a(x).sum().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            return x @ self.a.weight

    structure = capture(Model(), torch.randn(3, 4))
    (matmul,) = [k for k in range(structure.kernels.rows) if structure.kernels.text("name", k) == "aten.mm.default"][
        -1:
    ]
    weight = int(structure.kernels.values("inputs", matmul)[1])
    producer = int(structure.tensors["producer"][weight])
    assert structure.kernels.text("name", producer) == "aten.add_.Tensor"
