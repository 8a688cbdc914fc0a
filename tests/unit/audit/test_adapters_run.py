"""Every adapter that the audit recommends runs on real features and gives the teacher's shape."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit.compare import ADAPT, INCOMPATIBLE, MATCH, Options, compare
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.capture import capture
from tb_plugin_structure.distill.adapters import build_adapter
from tb_plugin_structure.distill.features import FeatureRecorder, Point

from .small_models import small_models

RECORDED_BATCH, OTHER_BATCH = 2, 3


class Recorded:
    """A model's record at one batch size, and its features of a real pass at another."""

    def __init__(self, name: str, model: nn.Module, inputs: Any) -> None:
        structure = capture(model, (), inputs(RECORDED_BATCH), name=name)
        self.side = Side(structure, "teacher")
        self.features = [
            self.side.feature(call, element)
            for call in range(structure.module_calls.rows)
            for element in self.side.elements(call)
        ]
        points = [Point(f.path, f.element, f.ordinal) for f in self.features]
        with torch.no_grad(), FeatureRecorder(model, points) as recorder:
            model(**inputs(OTHER_BATCH))
            self.values: list[Tensor] = [recorder[point] for point in points]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Recorded]:
    torch.manual_seed(0)
    return {name: Recorded(name, model, inputs) for name, (model, inputs) in small_models().items()}


def test_features_have_the_shapes_of_the_real_pass_but_for_the_batch(recorded: dict[str, Recorded]) -> None:
    for name, record in recorded.items():
        for feature, value in zip(record.features, record.values, strict=True):
            assert len(feature.shape) == value.dim(), (name, feature)
            for dimension, size in zip(feature.dimensions, value.shape, strict=True):
                if "batch" not in dimension.name and dimension.name != "?":
                    assert dimension.size == size, (name, feature)


def _pairs(recorded: dict[str, Recorded], seed: int, count: int) -> list[tuple[Feature, Tensor, Feature, Tensor]]:
    """Features of random modules of random models."""
    generator = random.Random(seed)
    names = list(recorded)
    found = []
    for _ in range(count):
        teacher, student = recorded[generator.choice(names)], recorded[generator.choice(names)]
        t, s = generator.randrange(len(teacher.features)), generator.randrange(len(student.features))
        found.append((teacher.features[t], teacher.values[t], student.features[s], student.values[s]))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_an_adapter_gives_the_teachers_shape_on_a_real_pass(recorded: dict[str, Recorded], seed: int) -> None:
    adapted = 0
    for teacher, theirs, student, mine in _pairs(recorded, seed, 250):
        comparison = compare(teacher, student, Options(norm=seed % 2 == 1))
        if comparison.verdict != ADAPT:
            continue
        adapted += 1
        adapter = build_adapter(comparison.adapter).eval()
        assert adapter(mine).shape == theirs.shape, (teacher, student, comparison.adapter.line())
        assert sum(p.numel() for p in adapter.parameters()) == comparison.adapter.parameters
    assert adapted > 20


def test_the_code_shown_does_what_the_module_does(recorded: dict[str, Recorded]) -> None:
    for teacher, theirs, student, mine in _pairs(recorded, 99, 250):
        comparison = compare(teacher, student)
        if comparison.verdict != ADAPT:
            continue
        names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F}
        code = comparison.adapter.code()
        if code.startswith("class"):
            exec(code, names)
            module = names["Adapter"]()
        else:
            module = eval(code, names)
        assert module(mine).shape == theirs.shape, code


def _patches(hidden: int, *, registers: int = 0, behind: int = 0) -> nn.Module:
    """Class token, registers, patches, and learnt tokens behind them, as YOLOS's detection tokens."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, hidden, 4, 4)
            self.cls = nn.Parameter(torch.zeros(1, 1, hidden))
            self.registers = nn.Parameter(torch.zeros(1, registers, hidden)) if registers else None
            self.behind = nn.Parameter(torch.zeros(1, behind, hidden)) if behind else None
            self.block = nn.TransformerEncoderLayer(hidden, 2, 2 * hidden, batch_first=True)

        def forward(self, image: Tensor) -> Tensor:
            tokens = self.patch(image).flatten(2).transpose(1, 2)
            tokens = torch.cat((self.cls.expand(len(tokens), -1, -1), tokens), 1)
            if self.registers is not None:  # after the class token
                tokens = torch.cat((tokens[:, :1], self.registers.expand(len(tokens), -1, -1), tokens[:, 1:]), 1)
            if self.behind is not None:
                tokens = torch.cat((tokens, self.behind.expand(len(tokens), -1, -1)), 1)
            return self.block(tokens)

    return Tokens().eval()


def _read(model: nn.Module, side: int) -> tuple[Feature, Tensor]:
    structure = capture(model, (torch.ones(RECORDED_BATCH, 3, side, side),), name="tokens")
    record = Side(structure, "student")
    call = next(c for c in range(structure.module_calls.rows) if structure.call_path(c) == "block")
    with torch.no_grad():
        return record.feature(call), model(torch.ones(OTHER_BATCH, 3, side, side))


@pytest.mark.parametrize(
    ("student", "steps"),
    [
        ({"behind": 10}, "DropTokens(10 from 26)"),
        ({"registers": 4}, "DropTokens(4 from 1)"),
        ({"registers": 4, "behind": 10}, "DropTokens(10 from 30) \u2192 DropTokens(4 from 1)"),
    ],
)
def test_tokens_behind_the_grid_and_in_the_middle_are_dropped(student: dict[str, int], steps: str) -> None:
    teacher, theirs = _read(_patches(16), 20)
    feature, mine = _read(_patches(16, **student), 20)
    comparison = compare(teacher, feature)
    assert comparison.verdict == ADAPT, comparison.reason
    assert comparison.adapter.line() == steps
    adapted = build_adapter(comparison.adapter)(mine)
    assert adapted.shape == theirs.shape == (3, 26, 16)
    assert torch.equal(adapted[:, 1:], mine[:, 1 + student.get("registers", 0) :][:, :25])  # the grid, in its order


def test_a_sequence_with_tokens_behind_becomes_a_map() -> None:
    map_of = nn.Sequential(nn.Conv2d(3, 16, 4, 4))
    structure = capture(map_of, (torch.ones(RECORDED_BATCH, 3, 20, 20),), name="map")
    feature, mine = _read(_patches(16, behind=10), 20)
    comparison = compare(Side(structure, "teacher").feature(0), feature)
    assert build_adapter(comparison.adapter)(mine).shape == (3, 16, 5, 5)
    grid = mine[:, 1:26].transpose(1, 2).unflatten(2, (5, 5))
    assert torch.equal(build_adapter(comparison.adapter)(mine), grid)


def test_tokens_that_the_student_has_not_are_no_target() -> None:
    teacher, _ = _read(_patches(16, behind=10), 20)
    student, _ = _read(_patches(16), 20)
    comparison = compare(teacher, student)
    assert comparison.verdict == INCOMPATIBLE
    assert "10 tokens of the teacher behind the image's grid" in comparison.reason


def test_equal_shapes_of_equal_meaning_match(recorded: dict[str, Recorded]) -> None:
    for record in recorded.values():
        for feature in record.features:
            assert compare(feature, feature).verdict == MATCH


def test_what_is_refused_gives_a_reason(recorded: dict[str, Recorded]) -> None:
    refused = 0
    for teacher, _, student, _ in _pairs(recorded, 7, 400):
        comparison = compare(teacher, student)
        if comparison.verdict == INCOMPATIBLE:
            refused += 1
            assert comparison.reason
            assert not comparison.adapter
    assert refused > 20
