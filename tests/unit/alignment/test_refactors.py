"""One computation written in two ways: what the summary and the edit script say of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure import Alignment, align, capture, observe


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


class Scores(nn.Module):
    """A softmax of products: the function, or a module."""

    def __init__(self, how: str = "function", dim: int = -1) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
        self.dim = dim
        if how == "module":
            self.softmax = nn.Softmax(dim)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        return (self.softmax(scores) if hasattr(self, "softmax") else scores.softmax(self.dim)) @ x


def scored(how: str, dim: int) -> Alignment:
    x = torch.zeros(2, 5, 8)
    return align(teacher=capture(Scores(), (x,)), student=capture(Scores(how, dim), (x,)))


def test_a_function_as_a_module_with_another_argument_is_told_with_both() -> None:
    assert scored("module", -1).summary() == (
        "Nothing changed: all 2 layers are identical; 1 module is a function call in the teacher."
    )
    changed = scored("module", 1)
    assert edits(changed) == ["softmax (Softmax) is a function call in the teacher, dim -1 → 1"]
    assert changed.summary() == (
        "All 2 layers are identical; 1 module is a function call in the teacher; "
        "functions are called otherwise: softmax dim -1 → 1."
    )


def test_a_function_called_otherwise_groups_no_module_otherwise() -> None:
    assert scored("function", 1).summary() == (
        "All 2 layers are identical; functions are called otherwise: softmax dim -1 → 1."
    )


def test_a_further_call_of_the_model_has_a_name() -> None:
    teacher, student, x = nn.Linear(4, 4), nn.Linear(4, 4), torch.zeros(2, 4)
    with observe({"teacher": teacher, "student": student}) as region:
        teacher(x)
        student(student(x))
    alignment = align(teacher=region.structures["teacher"], student=region.structures["student"])
    assert edits(alignment) == ["a further call of the model (Linear) only in the student"]
    assert "a further call of the model is only in the student" in alignment.summary()


class Stages(nn.Module):
    """Two numbered stages of blocks."""

    def __init__(self, block: type[nn.Module], width: int) -> None:
        super().__init__()
        self.stem = nn.Linear(8, width)
        self.layer1 = nn.Sequential(*(block(width) for _ in range(3)))
        self.layer2 = nn.Sequential(*(block(width) for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer2(self.layer1(self.stem(x)))


class Deep(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.conv3 = nn.LayerNorm(width), nn.Linear(width, width)
        self.up, self.gate, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv3(self.down(self.gate(self.up(self.norm(x)))))


class Shallow(Deep):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        del self.conv3

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.gate(self.up(self.norm(x))))


def stages(block: type[nn.Module], width: int) -> nn.Module:
    return Stages(block, width).eval()


def test_what_all_numbered_stages_lack_is_told_once() -> None:
    teacher, student = (capture(stages(block, 16), torch.zeros(2, 5, 8)) for block in (Deep, Shallow))
    assert edits(align(teacher=teacher, student=student)) == ["layer#.#.conv3 (Linear) only in the teacher (×6)"]
    one = Stages(Shallow, 16)
    one.layer1[1] = Deep(16)  # one block of one stage is named
    assert edits(align(teacher=capture(one.eval(), torch.zeros(2, 5, 8)), student=student)) == [
        "layer1.1.conv3 (Linear) only in the teacher"
    ]


def test_layers_of_blocks_that_change_alike_are_told_once() -> None:
    teacher, student = (capture(stages(Deep, width), torch.zeros(2, 5, 8)) for width in (16, 4))
    # Of each block's layers three are as wide as the block (few enough to be named) and two as its inner layer.
    assert edits(align(teacher=teacher, student=student)) == [
        "layer#.#.norm: output 5×16 → 5×4 (×6)",
        "layer#.#.down: output 5×16 → 5×4 (×6)",
        "layer#.#.conv3: output 5×16 → 5×4 (×6)",
        "layer#.#.up: output 5×64 → 5×16 (×6)",
        "layer#.#.gate: output 5×64 → 5×16 (×6)",
        "stem: output 5×16 → 5×4",
    ]
    encoder = (
        nn.TransformerEncoderLayer(16, 2, 16, batch_first=True),
        nn.TransformerEncoderLayer(4, 2, 4, batch_first=True),
    )
    wide, narrow = (nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval() for layer in encoder)
    found = edits(align(teacher=capture(wide, torch.zeros(2, 5, 16)), student=capture(narrow, torch.zeros(2, 5, 4))))
    assert found[0].startswith("layers.#: output 5×16 → 5×4 (")


class Around(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_further_wrappers_are_told() -> None:
    plain = model(Flat(), Flat())
    alignment = compared(Around(Around(plain)), plain)
    assert alignment.summary() == (
        "Nothing changed: all 12 module calls are identical; the teacher wraps them in 2 further modules."
    )
