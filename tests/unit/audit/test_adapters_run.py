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
