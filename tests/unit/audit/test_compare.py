"""One mismatch class at a time: what is recognised, what is recommended, what is refused and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import transformers
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.analysis.audit.compare import ADAPT, INCOMPATIBLE, MATCH, Comparison, Options, compare
from tb_plugin_structure.analysis.audit.feature import Dimension, Feature
from tb_plugin_structure.analysis.audit.forms import square_grid
from tb_plugin_structure.analysis.audit.rules.view_by_accident import exchanges
from tb_plugin_structure.capture import CaptureFailed, capture

from .pairing import pair_by_path
from .small_models import ConvNet, VisionTransformer


def feature(*dimensions: tuple[str, int] | Dimension, dtype: str = "float32", device: str = "cpu") -> Feature:
    return Feature(
        path="module",
        class_name="Module",
        call=0,
        dimensions=tuple(d if isinstance(d, Dimension) else Dimension(*d) for d in dimensions),
        dtype=dtype,
        device=device,
        tensor=0,
    )


def nchw(channels: int, height: int, width: int, batch: int = 2) -> Feature:
    return feature(("batch", batch), ("channels", channels), ("height", height), ("width", width))


def nhwc(channels: int, height: int, width: int) -> Feature:
    return feature(("batch", 2), ("height", height), ("width", width), ("channels", channels))


def tokens(count: int, hidden: int, special: int = 0, grid: tuple[int, int] | None = None) -> Feature:
    return feature(("batch", 2), Dimension("tokens", count, special, grid), ("hidden", hidden))


def attention(heads: int, length: int) -> Feature:
    return feature(("batch", 2), ("heads", heads), ("tokens", length), ("keys", length))


def heads_last(heads: int, width: int) -> Feature:
    """As queries and keys are normalised in Qwen 3 and OLMo 2."""
    return feature(("batch", 2), ("tokens", 64), ("heads", heads), ("head_dim", width))


def heads_first(heads: int, width: int) -> Feature:
    return feature(("batch", 2), ("heads", heads), ("tokens", 64), ("head_dim", width))


def vector(name: str, size: int) -> Feature:
    return feature(("batch", 2), (name, size))


VIT = tokens(197, 768, 1, (14, 14))
DISTILLED = tokens(198, 192, 2, (14, 14))


@pytest.mark.parametrize(
    ("teacher", "student", "classes", "line"),
    [
        (nchw(64, 7, 7), nchw(64, 7, 7, batch=5), (), ""),
        (nchw(256, 56, 56), nchw(64, 56, 56), ("channels",), "Conv1x1(64->256)"),
        (nchw(64, 28, 28), nchw(64, 56, 56), ("spatial x2",), "AdaptiveAvgPool2d(28x28)"),
        (nchw(64, 56, 56), nchw(64, 28, 28), ("spatial /2",), "Resize(56x56, bilinear)"),
        (nchw(64, 65, 65), nchw(64, 64, 64), ("off by one",), "Resize(65x65, bilinear)"),
        (nchw(64, 7, 7), nchw(32, 28, 28), ("spatial", "channels"), "AdaptiveAvgPool2d(7x7) → Conv1x1(32->64)"),
        (nhwc(96, 56, 56), nhwc(64, 56, 56), ("channels",), "Linear(64->96)"),
        (nchw(96, 56, 56), nhwc(96, 56, 56), ("layout",), "permute(NHWC to NCHW)"),
        (
            nhwc(96, 28, 28),
            nchw(64, 56, 56),
            ("layout", "spatial x2", "channels"),
            "AdaptiveAvgPool2d(28x28) → Conv1x1(64->96) → permute(NCHW to NHWC)",
        ),
        (VIT, tokens(197, 192, 1, (14, 14)), ("hidden",), "Linear(192->768)"),
        (VIT, DISTILLED, ("special tokens", "hidden"), "DropTokens(1 from 1) → Linear(192->768)"),
        (tokens(196, 192, 0, (14, 14)), DISTILLED, ("special tokens",), "DropTokens(2)"),
        (VIT, tokens(196, 768, 0, (14, 14)), ("special tokens",), "PrependMean(1)"),
        (VIT, tokens(257, 768, 1, (16, 16)), ("tokens",), "ResizeGrid(16x16->14x14, keeping 1)"),
        (
            nchw(1024, 14, 14),
            VIT,
            ("rank", "special tokens", "channels"),
            "DropTokens(1) → tokens to map(14x14) → Conv1x1(768->1024)",
        ),
        (
            VIT,
            nchw(512, 7, 7),
            ("rank", "spatial /2", "special tokens", "channels"),
            "Resize(14x14, bilinear) → map to tokens → PrependMean(1) → Linear(512->768)",
        ),
        (
            vector("hidden", 128),
            nchw(512, 7, 7),
            ("rank", "channels"),
            "AdaptiveAvgPool2d(1x1) → flatten → Linear(512->128)",
        ),
        (vector("hidden", 768), tokens(197, 192, 1, (14, 14)), ("rank", "hidden"), "token[0] → Linear(192->768)"),
        (vector("hidden", 768), tokens(128, 192), ("rank", "hidden"), "mean over tokens → Linear(192->768)"),
        (attention(12, 197), attention(3, 197), ("heads",), "RepeatHeads(x4)"),
        (attention(4, 128), attention(12, 128), ("heads",), "MeanHeads(groups of 3)"),
        (heads_last(4, 128), heads_last(4, 64), ("head_dim",), "Linear(64->128)"),
        (
            heads_last(32, 128),
            heads_last(16, 128),
            ("heads",),
            "permute(BLHD to BHLD) → RepeatHeads(x2) → permute(BHLD to BLHD)",
        ),
        (
            heads_last(4, 128),
            heads_first(8, 64),
            ("layout", "heads", "head_dim"),
            "MeanHeads(groups of 2) → Linear(64->128) → permute(BHLD to BLHD)",
        ),
        (replace(nchw(8, 4, 4), dtype="bfloat16"), nchw(8, 4, 4), ("dtype",), "to(bfloat16)"),
        (replace(nchw(8, 4, 4), device="cuda:1"), nchw(8, 4, 4), ("device",), "to(cuda:1)"),
    ],
)
def test_adapter(teacher: Feature, student: Feature, classes: tuple[str, ...], line: str) -> None:
    comparison = compare(teacher, student)
    assert comparison.classes == classes
    assert comparison.adapter.line() == line
    assert comparison.verdict == (ADAPT if classes else MATCH)


@pytest.mark.parametrize(
    ("teacher", "student", "reason"),
    [
        (attention(16, 64), attention(12, 64), "12 and 16 heads do not divide"),
        (vector("classes", 1000), vector("classes", 10), "10 classes against 1000"),
        (nchw(64, 7, 7), vector("hidden", 64), "a pooled vector has no positions"),
        (tokens(128, 64), nchw(64, 7, 7), "are not the grid of an image"),
        (tokens(128, 64), tokens(100, 64), "100 and 128 text tokens"),
        (vector("classes", 64), vector("hidden", 32), "mean different things"),
        (
            feature(("batch", 2), ("tokens", 16), ("vocabulary", 32000)),
            feature(("batch", 2), ("tokens", 16), ("vocabulary", 50257)),
            "different tokenizers",
        ),
        (
            feature(("batch", 2), ("tokens", 16), ("vocabulary", 152064)),
            feature(("batch", 2), ("tokens", 16), ("vocabulary", 151936)),
            "teacher[..., :151936]",
        ),
        (feature(("?", 3), ("?", 5)), feature(("?", 4), ("?", 7)), "the meaning of the dimensions is not clear"),
        (replace(vector("hidden", 4), dtype="int64"), vector("hidden", 8), "are not features"),
        (replace(nchw(8, 4, 4), tensor=-1), nchw(8, 4, 4), "the teacher's module returns no tensor"),
    ],
)
def test_refusal(teacher: Feature, student: Feature, reason: str) -> None:
    comparison = compare(teacher, student, Options(text=True))
    assert comparison.verdict == INCOMPATIBLE
    assert reason in comparison.reason
    assert not comparison.adapter


def test_attention_maps_that_differ_by_a_distillation_token() -> None:
    def map_of(heads: int, count: int, special: int) -> Feature:
        length = [Dimension(name, count, special, (14, 14)) for name in ("tokens", "keys")]
        return feature(("batch", 2), ("heads", heads), *length)

    comparison = compare(map_of(3, 197, 1), map_of(3, 198, 2))
    assert comparison.classes == ("special tokens",)
    assert comparison.adapter.shape((2, 3, 198, 198)) == (2, 3, 197, 197)


def test_normalisation_and_activation_follow_the_projection_when_asked_for() -> None:
    teacher = replace(nchw(256, 14, 14), after_activation="ReLU")
    comparison = compare(teacher, nchw(64, 14, 14), Options(norm=True))
    assert comparison.adapter.line() == "Conv1x1(64->256) → BatchNorm2d(256) → ReLU"
    assert comparison.adapter.parameters == 16_384 + 512


def test_equal_numbers_of_another_meaning_are_no_match() -> None:
    """64 channels of an 8x8 map flattened without a transpose, against 64 tokens of 64."""
    channels_first = feature(("batch", 2), ("hidden", 64), ("tokens", 64))
    comparison = compare(tokens(64, 64), channels_first)
    assert comparison.classes == ("layout",)
    assert comparison.adapter.shape((2, 64, 64)) == (2, 64, 64)


def test_weightless_records_are_on_no_device() -> None:
    assert compare(replace(nchw(8, 4, 4), device="cuda:0"), replace(nchw(8, 4, 4), device="meta")) == Comparison(MATCH)


@pytest.mark.parametrize(
    ("count", "grid"), [(196, (14, 14)), (197, (14, 14)), (198, (14, 14)), (201, (14, 14)), (128, None), (2, None)]
)
def test_grids_with_special_tokens(count: int, grid: tuple[int, int] | None) -> None:
    assert square_grid(count) == grid


def test_a_view_that_exchanges_the_batch() -> None:
    label = (Dimension("batch", 4), Dimension("tokens", 6), Dimension("hidden", 8))
    assert exchanges(label, (6, 4, 8))
    assert not exchanges(label, (24, 8))
    assert not exchanges(label, (4, 6, 2, 4))


# ---- causes, on real records


def record(model: nn.Module, size: int, name: str) -> object:
    return capture(model.eval(), (torch.randn(2, 3, size, size),), name=name)


def test_an_off_by_one_is_traced_to_the_pooling_that_rounds_up() -> None:
    teacher = record(ConvNet((8, 12), ceil_mode=True), 33, "teacher")
    student = record(ConvNet((8, 12)), 33, "student")
    row = audit(pair_by_path(teacher, student)).row("pool")
    assert row.comparison.classes == ("off by one",)
    assert "pool (33x33 to 16x16" in row.cause
    assert "rounds differently than the teacher's pool (33x33 to 17x17" in row.cause
    assert "ceil_mode True" in row.cause


def test_a_stride_is_traced_to_the_convolution_that_has_it() -> None:
    teacher, student = ConvNet((8, 12)), ConvNet((8, 12))
    student.stages[1][0].conv1.stride = student.stages[1][0].shortcut.stride = (1, 1)
    report = audit(pair_by_path(record(teacher, 32, "teacher"), record(student, 32, "student")))
    assert "the teacher also reduces in stages.1.0.conv1 (16x16 to 8x8" in report.row("stages.1").cause


def test_special_tokens_are_traced_to_their_parameter() -> None:
    teacher = record(VisionTransformer(24, 3, special=1), 32, "teacher")
    student = record(VisionTransformer(16, 2, special=2), 32, "student")
    row = audit(pair_by_path(teacher, student)).row("blocks.0")
    assert row.comparison.adapter.line() == "DropTokens(1 from 1) → Linear(16->24)"
    assert "1 special in the teacher (special), 2 special in the student (special)" in row.cause


def test_distilled_deit_has_a_class_and_a_distillation_token() -> None:
    config = transformers.DeiTConfig(
        image_size=32, patch_size=8, hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=48
    )
    structure = capture(transformers.DeiTModel(config).eval(), (torch.randn(2, 3, 32, 32),), name="deit")
    row = audit(pair_by_path(structure, structure)).row("embeddings")
    assert row.student is not None
    assert row.student.dimensions[1].text() == "tokens 18 = 2 + 4x4"
    assert row.student.dimensions[1].origin == "embeddings.cls_token, embeddings.distillation_token"


def test_the_record_of_a_pass_that_failed_is_audited_as_far_as_it_reaches() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(5, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    with pytest.raises(CaptureFailed) as failure:
        capture(Fails(), (torch.ones(2, 3),), name="student")
    structure = failure.value.structure
    assert structure is not None
    report = audit(pair_by_path(structure, structure))
    assert report.row("first").verdict == MATCH
    assert report.to_proto().rows.rows == len(report.rows)
