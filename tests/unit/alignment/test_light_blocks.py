"""Stacks of blocks that hold a single layer each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tb_plugin_structure import align, capture
from tb_plugin_structure.analysis.alignment import Alignment
from tb_plugin_structure.records.structure import Structure


def _block(kind: str, width: int) -> nn.Module:
    if kind == "linear":
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout())
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())


class _Residual(nn.Module):
    """x = x + block(x), `depth` times, between a stem and a head."""

    def __init__(self, kind: str, depth: int, width: int) -> None:
        super().__init__()
        self.kind = kind
        self.stem = nn.Linear(8, width) if kind == "linear" else nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList([_block(kind, width) for _ in range(depth)])
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        logits: torch.Tensor = self.head(x if self.kind == "linear" else x.mean((2, 3)))
        return logits


class _Heads(nn.Module):
    """Alike entries of a list that run side by side."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList([_block("linear", 8) for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([head(x) for head in self.heads], -1)


def _record(kind: str, depth: int, width: int, training: bool) -> Structure:
    x = torch.randn(2, 8) if kind == "linear" else torch.randn(2, 3, 8, 8)
    return capture(_Residual(kind, depth, width).train(training), (x,), name=f"{kind}{depth}")


def _align(kind: str, depth_t: int, depth_s: int, width_s: int = 16, training: bool = True) -> Alignment:
    return align(
        teacher=_record(kind, depth_t, 32, training=False), student=_record(kind, depth_s, width_s, training=training)
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["linear", "convolution"])
@pytest.mark.parametrize(
    ("depth_t", "depth_s", "expected"),
    [
        (6, 4, {0: 0, 1: 1, 2: 3, 3: 5}),
        (3, 2, {0: 0, 1: 2}),
        (12, 5, {0: 0, 1: 3, 2: 6, 3: 8, 4: 11}),
        (2, 6, {0: 0, 5: 1}),
        (4, 4, {0: 0, 1: 1, 2: 2, 3: 3}),
    ],
)
def test_whole_blocks_are_paired_by_the_policy(
    kind: str, depth_t: int, depth_s: int, expected: dict[int, int], training: bool
) -> None:
    pairs = _align(kind, depth_t, depth_s, training=training).module_pairs()
    wanted = {"": [""], "stem": ["stem"], "head": ["head"]}
    for block_s, block_t in expected.items():
        for part in ("", ".0", ".1", ".2"):
            wanted[f"blocks.{block_s}{part}"] = [f"blocks.{block_t}{part}"]
    assert pairs == wanted


def test_the_sentence_tells_the_depth() -> None:
    assert _align("linear", 6, 4).summary().startswith("The student has 4 of 6 blocks of blocks, width 32 → 16; ")


def test_a_single_light_block_is_a_block_of_the_other_models_stack() -> None:
    pairs = _align("linear", 6, 1).module_pairs()
    assert pairs["blocks.0"] == ["blocks.0"]
    assert pairs["blocks.0.1"] == ["blocks.0.1"]


def test_entries_that_run_side_by_side_are_no_stack() -> None:
    x = torch.randn(2, 8)
    alignment = align(teacher=capture(_Heads(4), (x,)), student=capture(_Heads(4), (x,)))
    assert not alignment.stacks


class _Chain(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        for number, layer in enumerate(layers):
            self.add_module(f"layer{number}", layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.children():
            x = layer(x)
        return x


def test_a_block_is_never_paired_with_the_activation_at_its_end() -> None:
    x = torch.randn(2, 8)
    teacher = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 8))
    student = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    alignment = align(teacher=capture(teacher, (x,)), student=capture(student, (x,)))
    assert alignment.module_pairs()["1"] == ["1.1"]


def test_a_student_without_some_of_the_layers_is_not_called_built_like_the_teacher() -> None:
    x = torch.randn(2, 8)
    teacher = _Chain(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4))
    student = _Chain(nn.Linear(8, 16), nn.Linear(16, 4))
    told = align(teacher=capture(teacher, (x,)), student=capture(student, (x,))).summary()
    assert told.startswith("2 of the student's 2 ")
    assert "layer1 is only in the teacher" in told
