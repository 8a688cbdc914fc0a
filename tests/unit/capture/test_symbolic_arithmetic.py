"""Sizes in Python's own arithmetic under symbolic=: followed where they can be, else said to be fixed, and where."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tb_plugin_structure.capture import capture
from tb_plugin_structure.records.structure import Structure

Function = Callable[[Tensor], Any]
SEQUENCE = (("B", "T", 8), (3, 12, 8), [(2, 9, 8), (5, 31, 8), (4, 18, 8)])
IMAGE = (("B", 3, "H", "W"), (2, 3, 24, 36), [(3, 3, 33, 40), (1, 3, 48, 25), (4, 3, 27, 61)])


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def outputs(structure: Structure) -> list[int]:
    return [int(row) for row in structure.module_calls.values("outputs", 0)]


FOLLOWED: dict[str, tuple[Function, Any, list[tuple[str, ...]]]] = {
    "half of the steps": (lambda x: torch.arange(x.shape[1] // 2 + 1) * x.mean(), SEQUENCE, [("T//2+1",)]),
    "positions": (lambda x: x.sum(-1) + torch.arange(x.size(1)), SEQUENCE, [("B", "T")]),
    "reshaped with -1": (lambda x: x.reshape(x.shape[0], -1, 2).flatten(0, 1), SEQUENCE, [("4*B*T", "2")]),
    "list of sizes": (lambda x: torch.zeros([*x.shape[:2], x.dim()]), SEQUENCE, [("B", "T", "3")]),
    "elements": (lambda x: torch.zeros(x.numel() // x.shape[0]), SEQUENCE, [("8*T",)]),
    "mask": (lambda x: torch.full((x.shape[1], x.shape[1]), -1e9).triu(1), SEQUENCE, [("T", "T")]),
    "padded and cut": (lambda x: F.pad(x, (0, (-x.shape[-1]) % 5)).unfold(-1, 5, 5), SEQUENCE, [("B", "T", "2", "5")]),
    "heads": (
        lambda x: x.view(x.shape[0], x.shape[1], 2, x.shape[2] // 2).transpose(1, 2),
        SEQUENCE,
        [("B", "2", "T", "4")],
    ),
    "repeated": (lambda x: x.repeat(1, x.shape[0], 2), SEQUENCE, [("B", "B*T", "16")]),
    "scaled down": (
        lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
        IMAGE,
        [("B", "3", "trunc(0.5*H)", "trunc(0.5*W)")],
    ),
    "scaled to sizes": (
        lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] // 3)),
        IMAGE,
        [("B", "3", "2*H", "W//3")],
    ),
    # The largest pool of 3 by steps of 2 that begins within n: ceil((n - 3) / 2) + 1.
    "ceil_mode": (lambda x: F.max_pool2d(x, 3, stride=2, ceil_mode=True), IMAGE, [("B", "3", "H//2", "W//2")]),
    "strides": (
        lambda x: F.conv2d(x, torch.ones(4, 3, 5, 5), stride=3, dilation=2, padding=2),
        IMAGE,
        [("B", "4", "(H-2)//3", "(W-2)//3")],
    ),
    "rounded": (
        lambda x: torch.zeros(math.ceil(x.shape[2] / 4), math.floor(x.shape[3] * 0.5)),
        IMAGE,
        [("ceil(H/4)", "floor(0.5*W)")],
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_sizes_in_arithmetic_are_followed_and_predict_three_unseen_sizes(name: str) -> None:
    function, (dimensions, shape, unseen), expected = FOLLOWED[name]
    model = Applied(function)
    structure = capture(model, torch.randn(shape), symbolic={"0": dimensions})
    assert [structure.symbolic_shape(row) for row in outputs(structure)] == expected
    for other in unseen:
        values = {name: size for name, size in zip(dimensions, other, strict=True) if isinstance(name, str)}
        real = capture(model, torch.randn(other))
        assert [structure.predict_shape(row, values) for row in outputs(structure)] == [
            real.shape(row) for row in outputs(real)
        ]
        assert structure.violated_conditions(values) == []


FIXED: dict[str, tuple[Function, str]] = {
    "len": (lambda x: torch.zeros(len(x) * 2), "B == 3"),
    "int": (lambda x: torch.zeros(int(x.shape[1]) + 1), "T == 12"),
    "range": (lambda x: torch.cat([x[:, step] for step in range(x.size(1))]), "T == 12"),
    "repeated list": (lambda x: torch.stack([x.mean()] * x.shape[1]), "T == 12"),
    "numpy": (lambda x: torch.zeros(int(np.prod(x.shape[:2]))), "B*T == 36"),
}


@pytest.mark.parametrize("name", FIXED)
def test_a_size_that_python_turned_into_a_number_is_said_to_be_fixed_with_the_line(name: str) -> None:
    function, condition = FIXED[name]
    structure = capture(Applied(function), torch.randn(3, 12, 8), symbolic={"0": ("B", "T", 8)})
    assert list(structure.header.symbolic.conditions) == [condition]
    # What was predicted for another size would be wrong, and the record says so.
    assert structure.violated_conditions({"B": 2, "T": 9}) == [condition]
    line = inspect.getsourcelines(function)[1]
    (note,) = structure.header.notes
    assert f"test_symbolic_arithmetic.py:{line})" in note


def test_a_slice_that_happens_to_be_as_long_as_the_whole_has_no_expression_of_it() -> None:
    """Its length comes from values, where the pass on symbols ends; nothing may be guessed from equal places."""
    structure = capture(Applied(lambda x: x[: int(x.sum())]), torch.ones(3, 1) * 1.0, symbolic={"0": ("B", 1)})
    assert structure.symbolic_shape(outputs(structure)[0]) is None
    assert any("the pass on symbols ended" in note for note in structure.header.notes)
