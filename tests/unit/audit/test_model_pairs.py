"""Pairs of whole models, paired by the aligner: what can be adapted is adapted on a real pass, and what is refused has
nothing in the documented table of adapters."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.analysis.audit import AuditReport, audit
from tb_plugin_structure.analysis.audit.compare import ADAPT, INCOMPATIBLE, MATCH
from tb_plugin_structure.analysis.audit.feature import Feature
from tb_plugin_structure.capture import capture
from tb_plugin_structure.distill.adapters import build_adapter
from tb_plugin_structure.distill.features import FeatureRecorder, Point

from .other_models import other_models
from .small_models import small_models

RECORDED_BATCH, OTHER_BATCH = 2, 3

GROUPS = (
    ("convnet", "convnet_wide", "channels_last", "vit", "vit_no_token", "perceptron", "swin"),
    ("vit", "vit_fine", "vit_two_tokens", "channels_last_wide"),
    ("speech", "speech_strided", "speech_time_first"),
    ("bert", "bert_longer", "gpt2", "recurrent", "recurrent_wide"),
    ("unet", "unet_shallow", "convnet"),
    ("autoencoder", "autoencoder_small"),
    ("volume", "volume_small"),
    ("temporal", "temporal_small"),
    ("graph", "graph_small"),
    ("tagger", "tagger_gru"),
    ("qwen", "qwen_small"),
)
"""Models for the same data; every one teaches every other."""
PAIRS = list(dict.fromkeys(pair for group in GROUPS for pair in permutations(group, 2)))


def test_there_are_enough_pairs() -> None:
    assert len(PAIRS) >= 30


@pytest.fixture(scope="module")
def models() -> dict[str, tuple[nn.Module, Any]]:
    torch.manual_seed(0)
    return {name: (model.eval(), inputs) for name, (model, inputs) in {**small_models(), **other_models()}.items()}


@pytest.fixture(scope="module")
def structures(models: dict[str, tuple[nn.Module, Any]]) -> dict[str, Any]:
    return {name: capture(model, (), inputs(RECORDED_BATCH), name=name) for name, (model, inputs) in models.items()}


def features(model: nn.Module, inputs: Any, wanted: list[Feature]) -> list[Tensor]:
    points = [Point(feature.path, feature.element, feature.ordinal) for feature in wanted]
    with torch.no_grad(), FeatureRecorder(model, points) as recorder:
        model(**inputs(OTHER_BATCH))
        return [recorder[point] for point in points]


@pytest.mark.parametrize(("teacher", "student"), PAIRS)
def test_every_verdict_of_a_pair_holds(
    models: dict[str, tuple[nn.Module, Any]], structures: dict[str, Any], teacher: str, student: str
) -> None:
    report: AuditReport = audit(align(teacher=structures[teacher], student=structures[student]))
    rows = [row for row in report.rows if row.verdict in (MATCH, ADAPT) and row.student is not None]
    rows = [row for row in rows if row.teacher is not None and row.teacher.tensor >= 0]
    theirs = features(*models[teacher], [row.teacher for row in rows if row.teacher is not None])
    mine = features(*models[student], [row.student for row in rows if row.student is not None])
    for row, target, value in zip(rows, theirs, mine, strict=True):
        made = build_adapter(row.comparison.adapter).eval()(value) if row.verdict == ADAPT else value
        folded = row.teacher is not None and "batch" not in row.teacher.names
        assert made.shape[folded:] == target.shape[folded:], (row.student_path, row.comparison.adapter.line())
    for row in report.rows:
        if row.verdict == INCOMPATIBLE:
            assert row.teacher is not None
            assert row.student is not None
            assert has_no_adapter(row.teacher, row.student), (row.teacher, row.student, row.cause)


def has_no_adapter(teacher: Feature, student: Feature) -> bool:
    """Read off the documented table, not off the engine: where none of its rows applies."""
    features = (teacher, student)
    names = [set(feature.names) for feature in features]
    unclear = any(
        name in ("?", "single", "selected", "layers", "groups", "windows", "qkv") or "·" in name
        for feature in features
        for name in feature.names
    )
    predicts = [bool(each & {"classes", "vocabulary"}) for each in names]
    positions = [each & {"height", "width", "tokens", "length", "depth"} for each in names]
    heads = ["heads" in each for each in names]
    both_grids = grid(teacher) and grid(student)
    return (
        unclear
        or any(feature.tensor < 0 or feature.is_constant for feature in features)
        or predicts[0] != predicts[1]
        or (predicts[0] and teacher.shape[-1] != student.shape[-1])
        or heads[0] != heads[1]
        or (all(heads) and max(a := teacher.size("heads"), b := student.size("heads")) % max(1, min(a, b)) != 0)
        or (all(heads) and teacher.size("tokens") != student.size("tokens"))
        or (bool(positions[0]) and not positions[1])  # a vector has no positions
        or (positions[0] != positions[1] and not both_grids)
        or (positions == [{"tokens"}] * 2 and teacher.size("tokens") != student.size("tokens") and not both_grids)
        or not (teacher.is_floating and student.is_floating)
    )


def grid(feature: Feature) -> bool:
    """Whether the positions are an image's: a map, or tokens that are a square beside up to two special ones."""
    if "height" in feature.names:
        return True
    count = feature.size("tokens")
    return any(round((count - special) ** 0.5) ** 2 == count - special for special in (0, 1, 2) if count > special)
