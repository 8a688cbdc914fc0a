"""Layers that moved under their names, blocks of several kinds in one stack, functions that are called otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure import align, capture


class Layer(nn.Module):
    """A block whose norms come before what they belong to, or after it."""

    def __init__(self, width: int, before: bool) -> None:
        super().__init__()
        self.before = before
        self.query, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.attention_norm, self.final_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        if self.before:
            x = x + self.output(self.query(self.attention_norm(x)))
            return x + self.down(self.up(self.final_norm(x)))
        x = self.attention_norm(x + self.output(self.query(x)))
        return self.final_norm(x + self.down(self.up(x)))


class Pointwise(nn.Module):
    """A residual block with a depthwise convolution; its two projections are linear layers, or 1×1 convolutions."""

    def __init__(self, width: int, linear: bool) -> None:
        super().__init__()
        self.linear = linear
        self.depthwise = nn.Conv2d(width, width, 3, 1, 1, groups=width)
        self.norm = nn.GroupNorm(1, width)
        sizes = (width, 2 * width), (2 * width, width)
        self.expand, self.reduce = (nn.Linear(*size) if linear else nn.Conv2d(*size, 1) for size in sizes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x))
        if self.linear:
            return x + self.reduce(self.expand(y.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        return x + self.reduce(self.expand(y))


class Alternating(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[Mixed(k % 2 == 1) for k in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Mixed(nn.Module):
    """One class of blocks, every second of which holds a gate of its own."""

    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.gate = nn.Linear(8, 8) if gated else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.third(self.second(self.first(x)))
        return x + (y * self.gate(x) if self.gate is not None else y)


class Called(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


def _pairs(teacher: nn.Module, student: nn.Module, x: Tensor) -> dict[str, list[str]]:
    records = (capture(model, (x,), name=name) for model, name in ((teacher, "teacher"), (student, "student")))
    recorded_t, recorded_s = records
    return align(teacher=recorded_t, student=recorded_s).module_pairs()


@pytest.mark.parametrize("name", ["query", "output", "attention_norm", "final_norm", "up", "down"])
def test_norms_before_and_after_keep_their_names(name: str) -> None:
    def stack(before: bool) -> nn.Module:
        return nn.Sequential(*[Layer(8, before) for _ in range(3)])

    assert _pairs(stack(True), stack(False), torch.zeros(2, 4, 8))[f"1.{name}"] == [f"1.{name}"]


def test_blocks_of_a_mixed_stack_are_paired_with_blocks_of_their_kind() -> None:
    pairs = _pairs(Alternating(8), Alternating(4), torch.zeros(2, 8))
    for block in range(4):
        (teacher,) = pairs[f"layers.{block}"]
        assert int(teacher.rpartition(".")[2]) % 2 == block % 2
    assert pairs["layers.3.gate"] == [pairs["layers.3"][0] + ".gate"]


def test_pointwise_convolutions_are_paired_with_linear_layers() -> None:
    def stack(linear: bool) -> nn.Module:
        return nn.Sequential(*[Pointwise(8, linear) for _ in range(3)])

    pairs = _pairs(stack(True), stack(False), torch.zeros(1, 8, 4, 4))
    for name in ("depthwise", "norm", "expand", "reduce"):
        assert pairs[f"2.{name}"] == [f"2.{name}"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (lambda x: F.softmax(x, -1), lambda x: F.softmax(x, 1), "softmax dim -1 → 1"),
        (F.gelu, lambda x: F.gelu(x, approximate="tanh"), "gelu approximate default → tanh"),
    ],
)
def test_functions_called_otherwise_are_told(
    before: Callable[[Tensor], Tensor], after: Callable[[Tensor], Tensor], said: str
) -> None:
    x = torch.zeros(2, 4, 8)
    teacher, student = (
        capture(Called(function), (x,), name=name) for function, name in ((before, "teacher"), (after, "student"))
    )
    summary = align(teacher=teacher, student=student).summary()
    assert said in summary
    assert "Nothing changed" not in summary


def test_another_batch_is_no_change_of_arguments() -> None:
    def halved(x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1, 2).sum(1)

    teacher, student = (
        capture(Called(halved), (torch.zeros(batch, 4, 8),), name=name)
        for batch, name in ((2, "teacher"), (3, "student"))
    )
    assert align(teacher=teacher, student=student).summary() == "Nothing changed: all 2 module calls are identical."
