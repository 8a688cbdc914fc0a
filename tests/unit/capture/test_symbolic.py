"""Symbolic dimensions: every shape of a pass, predicted for sizes that were never run, is the shape of a real run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tb_plugin_structure.capture import capture
from tb_plugin_structure.records.structure import Structure
from tests.unit.capture.models import ConvNet, tiny_transformer

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


class UNet(nn.Module):
    """Two halvings, two doublings with connections across, padded where a size is odd."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)])
        self.bottom = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ModuleList([nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)])
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for stage in self.down:
            x = F.relu(stage(x))
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for stage, skip in zip(self.up, reversed(skips), strict=True):
            x = F.interpolate(x, scale_factor=2.0)
            x = F.pad(x, (0, skip.shape[-1] - x.shape[-1], 0, skip.shape[-2] - x.shape[-2]))
            x = F.relu(stage(torch.cat([x, skip], 1)))
        result: Tensor = self.head(x)
        return result


class PatchTokens(nn.Module):
    """Patches of any image, a class token, one attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 16, stride=16)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(images.shape[0], -1, -1), tokens], 1)
        result: Tensor = self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return result


class Windows(nn.Module):
    """Pads up to a multiple of seven and cuts into windows, as Swin does."""

    def forward(self, x: Tensor) -> Tensor:
        _, _, h, w = x.shape
        x = F.pad(x, (0, (7 - w % 7) % 7, 0, (7 - h % 7) % 7))
        b, c, h, w = x.shape
        return x.view(b, c, h // 7, 7, w // 7, 7).permute(0, 2, 4, 3, 5, 1).reshape(-1, 49, c)


def images(b: int, h: int, w: int) -> Inputs:
    return (torch.randn(b, 3, h, w),), {}


def ids(b: int, n: int) -> Inputs:
    mask = torch.ones(b, n, dtype=torch.long)
    mask[-1, -1] = 0
    return (), {"input_ids": torch.randint(3, 90, (b, n)), "attention_mask": mask}


def both_ids(b: int, n: int, m: int) -> Inputs:
    return (), {"input_ids": torch.randint(3, 90, (b, n)), "decoder_input_ids": torch.randint(3, 90, (b, m))}


IMAGE = {"0": ("B", 3, "H", "W")}
TEXT = {"input_ids": ("B", "L"), "attention_mask": ("B", "L")}
BOTH = {"input_ids": ("B", "L"), "decoder_input_ids": ("B", "M")}
THREE_IMAGES = [(3, 20, 36), (1, 33, 17), (2, 50, 21)]
CASES: dict[str, tuple[Callable[[], nn.Module], Any, Callable[..., Inputs], tuple[int, ...], list[tuple[int, ...]]]] = {
    "cnn": (ConvNet, IMAGE, images, (2, 16, 24), THREE_IMAGES),
    "cnn of one square image": (ConvNet, IMAGE, images, (1, 16, 16), THREE_IMAGES),
    "u-net": (UNet, IMAGE, images, (2, 19, 26), [(3, 35, 42), (1, 23, 30), (2, 51, 18)]),
    "patches": (PatchTokens, IMAGE, images, (2, 32, 48), [(3, 64, 96), (4, 79, 33), (2, 48, 160)]),
    "bert": (lambda: tiny_transformer("bert")[0], TEXT, ids, (2, 7), [(3, 11), (4, 5), (2, 16)]),
    "distilbert": (lambda: tiny_transformer("distilbert")[0], TEXT, ids, (2, 7), [(3, 11), (4, 5), (2, 16)]),
    "gpt2": (lambda: tiny_transformer("gpt2")[0], TEXT, ids, (2, 7), [(3, 11), (4, 5), (2, 16)]),
    "t5": (lambda: tiny_transformer("t5")[0], BOTH, both_ids, (2, 7, 4), [(3, 11, 5), (4, 5, 9), (2, 16, 3)]),
}


def row_count(structure: Structure) -> int:
    return sum(structure.symbolic_shape(row) is not None for row in range(structure.tensors.rows))


@pytest.mark.parametrize("case", CASES)
def test_every_shape_is_predicted_at_sizes_that_were_never_run(case: str) -> None:
    make, symbolic, inputs, sizes, unseen = CASES[case]
    model = make().eval()
    args, kwargs = inputs(*sizes)
    structure = capture(model, args, kwargs, symbolic=symbolic)
    assert row_count(structure) == structure.tensors.rows == structure.header.symbolic.known_tensors
    names = list(dict.fromkeys(dimension.name for dimension in structure.header.symbolic.dimensions))
    for other in unseen:
        args, kwargs = inputs(*other)
        real = capture(model, args, kwargs)
        values = dict(zip(names, other, strict=True))
        assert structure.violated_conditions(values) == []
        assert real.kernels.column_texts("name") == structure.kernels.column_texts("name")
        predicted = [structure.predict_shape(row, values) for row in range(structure.tensors.rows)]
        assert predicted == [real.shape(row) for row in range(real.tensors.rows)]


def output(structure: Structure) -> tuple[str, ...] | None:
    return structure.symbolic_shape(int(structure.module_calls.values("outputs", 0)[0]))


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [
        (nn.Conv2d(3, 8, 3, stride=2, padding=1), (1, 3, 32, 32), ("B", "8", "(H+1)//2", "(W+1)//2")),
        (
            nn.Sequential(*(nn.Conv2d(3, 3, 3, stride=2, padding=1) for _ in range(5))),
            (2, 3, 64, 64),
            ("B", "3", "(H+31)//32", "(W+31)//32"),
        ),
        (PatchTokens(), (2, 3, 32, 32), ("B", "(H//16)*(W//16)+1", "8")),
        (nn.Upsample(scale_factor=2), (2, 3, 8, 8), ("B", "3", "2*H", "2*W")),
        (nn.Upsample(scale_factor=1.5), (2, 3, 8, 8), ("B", "3", "trunc(1.5*H)", "trunc(1.5*W)")),
        (Windows(), (2, 3, 20, 30), ("B*((H+6)//7)*((W+6)//7)", "49", "3")),
        (nn.AdaptiveAvgPool2d(1), (2, 3, 8, 8), ("B", "3", "1", "1")),
    ],
    ids=["halved", "five strides", "patches", "doubled", "one and a half", "windows", "pooled"],
)
def test_expressions_are_as_a_person_would_write_them(
    model: nn.Module, shape: tuple[int, ...], expected: tuple[str, ...]
) -> None:
    assert output(capture(model, torch.randn(shape), symbolic={"0": ("B", 3, "H", "W")})) == expected


def test_an_argument_is_known_by_the_name_it_has_in_the_signature() -> None:
    assert output(capture(PatchTokens(), torch.randn(2, 3, 32, 32), symbolic={"images": ("N", 3, 32, 32)})) == (
        "N",
        "5",
        "8",
    )


def test_what_the_model_fixes_is_said_to_be_fixed() -> None:
    model, args, _ = tiny_transformer("vit")
    structure = capture(model, args, symbolic=True)
    found = {dimension.name: dimension.expression for dimension in structure.header.symbolic.dimensions}
    assert found == {"B": "B", "C": "3", "H": "16", "W": "16"}
    fixed = re.sub(r" \([^)]*modeling_vit\.py:\d+\)", "", structure.header.notes[0])
    assert fixed.startswith("Symbolic dimensions that are not free: C = 3, H = 16, W = 16. ")
    assert "transformers/models/vit/modeling_vit.py:" in structure.header.notes[0]
    assert list(structure.header.symbolic.conditions)[:3] == ["C == 3", "H == 16", "W == 16"]
    assert structure.violated_conditions({"B": 1, "C": 3, "H": 32, "W": 16}) == ["H == 16"]


def test_a_size_that_is_turned_into_a_number_is_no_longer_free_and_the_record_says_so() -> None:
    class Repeated(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x[:, step] for step in range(x.shape[1])])

    structure = capture(Repeated(), torch.ones(2, 3, 4), symbolic={"x": ("B", "T", 4)})
    assert output(structure) == ("3*B", "4")
    assert list(structure.header.symbolic.conditions) == ["T == 3"]
    assert "range()" in structure.header.notes[0]


def test_dimensions_that_the_model_makes_equal_have_one_name() -> None:
    structure = capture(tiny_transformer("bert")[0], *ids(2, 7), symbolic=True)
    found = {d.name: (d.input, d.dimension, d.expression) for d in structure.header.symbolic.dimensions}
    assert found["L"] == ("input_ids", 1, "L")
    assert found["L2"] == ("attention_mask", 1, "L")
    assert list(structure.header.symbolic.conditions) == ["L2 == L", "L <= 512"]
    assert structure.violated_conditions({"L": 600, "L2": 600}) == ["L <= 512"]


def test_sizes_that_depend_on_data_have_names_of_their_own() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.head(x[x.sum(1) > 0])
            return result

    structure = capture(Chosen(), torch.ones(5, 4), symbolic={"x": ("N", 4)})
    assert output(structure) == ("data0", "2")
    data = structure.header.symbolic.dimensions[1]
    assert (data.name, data.size, data.expression) == ("data0", 5, "")
    assert data.input == "aten.index.Tensor"
    assert structure.predict_shape(int(structure.module_calls.values("outputs", 0)[0]), {"data0": 3}) == (3, 2)


def test_a_branch_on_values_ends_the_pass_on_symbols_and_the_note_names_the_line() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            if y.sum() > 1e9:
                return y
            result: Tensor = self.b(y)
            return result

    structure = capture(Branching(), torch.ones(5, 4), symbolic=True)
    first, last = (int(structure.module_calls.values("outputs", call)[0]) for call in (1, 2))
    assert structure.symbolic_shape(first) == ("B", "4")
    assert structure.symbolic_shape(last) is None
    (note,) = [note for note in structure.header.notes if "ended" in note]
    assert "test_symbolic.py:" in note
    assert "/" not in note.split("test_symbolic.py:")[0].split(" at ")[-1].replace("tests/unit/capture/", "")


def test_the_model_is_left_as_it_was_and_the_record_is_the_same() -> None:
    model, x = ConvNet().train(), torch.randn(2, 3, 16, 16)
    before = {name: (id(tensor), tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()}
    random = torch.get_rng_state()
    plain, symbolic = capture(model, x), capture(model, x, symbolic=True)
    after = model.state_dict(keep_vars=True)
    assert all(id(after[name]) == key and torch.equal(after[name], value) for name, (key, value) in before.items())
    assert torch.equal(torch.get_rng_state(), random)
    assert symbolic.header.structure_hash == plain.header.structure_hash
    assert "symbolic" not in plain.tensors
    assert not plain.header.HasField("symbolic")


def test_expressions_survive_the_event_file() -> None:
    structure = capture(ConvNet(), torch.randn(2, 3, 16, 16), symbolic=IMAGE)
    again = Structure.decode(structure.encode())
    rows = range(structure.tensors.rows)
    assert [again.symbolic_shape(row) for row in rows] == [structure.symbolic_shape(row) for row in rows]
    assert again.header.symbolic == structure.header.symbolic


def test_expressions_come_without_weights_too() -> None:
    structure = capture(PatchTokens(), torch.randn(1, 3, 64, 64), fake=True, symbolic={"0": ("B", 3, "H", "W")})
    assert output(structure) == ("B", "(H//16)*(W//16)+1", "8")


@pytest.mark.parametrize(
    ("symbolic", "message"),
    [
        ({"pictures": ("B", 3, "H", "W")}, "'pictures'.*tensor arguments of this pass are 0, images"),
        ({"images": ("B", 3, "H")}, "each of its 4 dimensions"),
        ({"images": ("B", 4, "H", "W")}, "says 4 for dimension 1"),
        ({"images": ("B", 3, "S", "S")}, "'S' for 32.*and for 48"),
        ({"images": ("B", 3, "H*2", "W")}, "plain name"),
    ],
)
def test_names_that_do_not_fit_are_refused_before_anything_runs(symbolic: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        capture(PatchTokens(), torch.randn(1, 3, 32, 48), symbolic=symbolic)
