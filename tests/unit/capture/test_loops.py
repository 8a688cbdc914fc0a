"""k iterations over one call site are k operators; one call of many kernels is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tb_plugin_structure.capture import capture
from tests.unit.capture.models import ConvNet


class Weights(nn.Module):
    """Four square matrices and a function that uses them."""

    def __init__(self, body: Callable[..., Tensor]) -> None:
        super().__init__()
        self.ws = nn.ParameterList([nn.Parameter(torch.randn(4, 4)) for _ in range(4)])
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x, self.ws)


def carried(x: Tensor, ws: Any) -> Tensor:
    for w in ws:
        x = x @ w
    return x


def independent(x: Tensor, ws: Any) -> Tensor:
    out = []
    for w in ws:
        out.append(x @ w)
    return torch.stack(out)


def comprehension(x: Tensor, ws: Any) -> Tensor:
    return torch.stack([x @ w for w in ws])


def generator(x: Tensor, ws: Any) -> Tensor:
    return torch.stack(list(x @ w for w in ws))  # noqa: C400


def several_kernels(x: Tensor, ws: Any) -> Tensor:
    x = x[None]
    for w in ws:
        x = F.linear(x, w)
    return x


def while_loop(x: Tensor, ws: Any) -> Tensor:
    at = 0
    while at < 4:
        x = torch.matmul(x, ws[at])
        at += 1
    return x


def through_a_function(x: Tensor, ws: Any) -> Tensor:
    def step(y: Tensor, w: Tensor) -> Tensor:
        return y @ w

    for w in ws:
        x = step(x, w)
    return x


def mapped(x: Tensor, ws: Any) -> Tensor:
    return torch.stack(list(map(lambda w: x @ w, ws)))  # noqa: C417


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (carried, "@"),
        (independent, "@"),
        (comprehension, "@"),
        (generator, "@"),
        (several_kernels, "linear"),
        (while_loop, "matmul"),
        (through_a_function, "@"),
        (mapped, "@"),
    ],
)
def test_four_iterations_are_four_operators(body: Callable[..., Tensor], name: str) -> None:
    structure = capture(Weights(body), (torch.randn(2, 4),))
    assert structure.operators.column_texts("name").count(name) == 4


def test_two_calls_of_a_function_from_two_places_are_two_operators() -> None:
    def double(y: Tensor) -> Tensor:
        return y * 2

    structure = capture(Weights(lambda x, ws: double(double(x))), (torch.randn(2, 4),))
    assert structure.operators.column_texts("name") == ["*", "*"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (lambda x, ws: torch.einsum("bi,ij,jk->bk", x, ws[0], ws[1]), "einsum"),
        (lambda x, ws: x[:1, 1:, None], "[...]"),
        (lambda x, ws: F.linear(x[None], ws[0])[0], "linear"),
        (lambda x, ws: torch.linalg.multi_dot([x, ws[0], ws[1], ws[2]]), "multi_dot"),
    ],
)
def test_one_call_of_several_kernels_is_one_operator(body: Callable[..., Tensor], name: str) -> None:
    class Straight(Weights):
        def forward(self, x: Tensor) -> Tensor:
            return self.body(x, self.ws)

    structure = capture(Straight(body), (torch.randn(2, 4),))
    assert structure.operators.column_texts("name").count(name) == 1
    kernels = structure.operators["kernel_end"] - structure.operators["kernel_begin"]
    assert int(kernels.max()) > 1


def test_names_are_those_of_the_source() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = -x
            y = x + y
            y = torch.where(y > 0, y, x.exp())
            y[:, 0] = 1
            y += 2
            return F.softmax(y.T, dim=-1)

    names = capture(Model(), (torch.randn(2, 4),)).operators.column_texts("name")
    assert names == ["-", "+", ">", "exp", "where", "[...]", "[...] =", "+=", "T", "softmax"] or names == [
        "-",
        "+",
        ">",
        "exp",
        "where",
        "[...] =",
        "+=",
        "T",
        "softmax",
    ]


def test_sources_are_relative_and_can_be_left_out() -> None:
    args = (torch.randn(1, 3, 8, 8),)
    located = capture(ConvNet(), args).operators.column_texts("source")
    assert not any(source.startswith("/") or "\\" in source for source in located)
    assert any(source.startswith("tests/unit/capture/models.py:") for source in located)
    # An operator inside a layer of torch stands where the layer was called, not in torch's own file.
    assert not any(source.startswith("torch/") for source in located)
    assert set(capture(ConvNet(), args, source="none").operators.column_texts("source")) == {""}
    with_text = capture(ConvNet(), args, source="text").operators.column_texts("source")
    assert any(source.endswith("x = x * 0.5") for source in with_text)


def test_code_without_source_falls_back_to_kernel_names() -> None:
    space: dict[str, Any] = {"nn": nn}
    exec(  # a model typed into an interpreter
        "class Model(nn.Module):\n    def forward(self, x):\n        return (x * 2).relu()\n", space
    )
    assert capture(space["Model"](), (torch.randn(2),)).operators.column_texts("name") == ["mul", "relu"]


def test_identities_are_the_same_in_every_run() -> None:
    model, args = ConvNet().eval(), (torch.randn(1, 3, 8, 8),)
    assert capture(model, args).header.structure_hash == capture(model, args).header.structure_hash
