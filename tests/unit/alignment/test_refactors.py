"""One computation written in two ways: what the summary and the edit script say of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure import Alignment, align, capture


class Flat(nn.Module):
    """A block that calls its activation as a function."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8, eps)
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Grouped(nn.Module):
    """The same block with its layers in a module of their own, and the activation a module."""

    def __init__(self, activation: type[nn.Module] = nn.GELU) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 32), activation(), nn.Linear(32, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.ln(x))


class Unconnected(Flat):
    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(self.norm(x))))


class Mixing(nn.Module):
    """Attention without weights of its own, in heads that no layer shows."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.first(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return self.last(F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2))


def model(*blocks: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Embedding(20, 8), nn.Sequential(*blocks), nn.Linear(8, 20))


def compared(teacher: nn.Module, student: nn.Module) -> Alignment:
    tokens = torch.zeros(2, 4, dtype=torch.long)
    return align(
        teacher=capture(teacher, (tokens,), name="teacher"), student=capture(student, (tokens,), name="student")
    )


def edits(alignment: Alignment) -> list[str]:
    return [edit.text for edit in alignment.edits]


@pytest.mark.parametrize("turned", [False, True])
def test_an_activation_called_as_a_function_is_no_change(turned: bool) -> None:
    torch.manual_seed(0)
    flat, grouped = model(*(Flat() for _ in range(3))), model(*(Grouped() for _ in range(3)))
    alignment = compared(grouped, flat) if turned else compared(flat, grouped)
    whose = "student" if turned else "teacher"
    assert edits(alignment) == [f"#.#.mlp.# (GELU) is a function call in the {whose} (×3)"]
    assert alignment.summary() == (
        "Nothing changed: all 11 layers are identical; modules are grouped otherwise; "
        f"3 modules are function calls in the {whose}."
    )


def test_another_activation_as_a_module_is_a_change() -> None:
    torch.manual_seed(0)
    alignment = compared(model(Flat(), Flat()), model(Grouped(nn.Tanh), Grouped(nn.Tanh)))
    assert edits(alignment) == ["#.#.mlp.# (Tanh) only in the student (×2)"]
    assert not alignment.summary().startswith("Nothing")


def test_a_block_that_is_another_block_is_told() -> None:
    torch.manual_seed(0)
    shared = [Flat(), Flat(), Flat()]
    shared[2] = shared[1]
    alignment = compared(model(Flat(), Flat(), Flat()), model(*shared))
    assert edits(alignment) == ["1.2 is 1.1 (shared, in the student)"]
    assert "1.2 is 1.1 (shared, in the student)" in alignment.summary()
    assert compared(model(*shared), model(*shared)).summary() == "Nothing changed: all 16 module calls are identical."


def test_a_connection_that_only_one_model_has_is_no_silent_change() -> None:
    torch.manual_seed(0)
    alignment = compared(model(Flat()), model(Unconnected()))
    assert "Nothing changed" not in alignment.summary()
    assert "+ (×1)" in alignment.summary()


def test_a_number_that_no_layer_shows_is_no_silent_change() -> None:
    torch.manual_seed(0)
    alignment = compared(model(Mixing(2)), model(Mixing(4)))
    assert not alignment.summary().startswith("Nothing")
    assert edits(alignment) == ["1.0: heads 2 → 4"]
    assert compared(model(Mixing(2)), model(Mixing(2))).summary().startswith("Nothing changed")
