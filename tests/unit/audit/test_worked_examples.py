"""Pairs whose figures are known from elsewhere: published parameter counts, and MACs by ``FlopCounterMode`` / 2."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import AuditReport, audit
from tb_plugin_structure.analysis.audit.rows import stage_costs
from tb_plugin_structure.analysis.audit.side import Side
from tb_plugin_structure.capture import capture
from tb_plugin_structure.records.structure import Structure

from .pairing import pair_by_path

EAGER = {"attn_implementation": "eager"}


class ResidualBlock(nn.Module):
    """Basic (two 3x3) or bottleneck (1x1, 3x3, 1x1 to four times the width) block, stride in the 3x3."""

    def __init__(self, channels_in: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        sizes = [(channels_in, width, 1), (width, width, 3), (width, 4 * width, 1)] if bottleneck else [
            (channels_in, width, 3), (width, width, 3)]  # fmt: skip
        for number, (source, target, kernel) in enumerate(sizes, 1):
            own = stride if number == (2 if bottleneck else 1) else 1
            self.add_module(f"conv{number}", nn.Conv2d(source, target, kernel, own, kernel // 2, bias=False))
            self.add_module(f"bn{number}", nn.BatchNorm2d(target))
        self.relu = nn.ReLU(inplace=True)
        self.depth = len(sizes)
        out = sizes[-1][1]
        self.downsample = None
        if stride != 1 or channels_in != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for number in range(1, self.depth + 1):
            out = self.get_submodule(f"bn{number}")(self.get_submodule(f"conv{number}")(out))
            if number < self.depth:
                out = self.relu(out)
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, depths: tuple[int, ...], bottleneck: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = 64
        for number, depth in enumerate(depths):
            width, blocks = 64 * 2**number, []
            for block in range(depth):
                blocks.append(ResidualBlock(channels, width, 2 if block == 0 and number else 1, bottleneck))
                channels = 4 * width if bottleneck else width
            self.add_module(f"layer{number + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, 5):
            x = self.get_submodule(f"layer{number}")(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


def on_meta(make: Any, *args: Any, **kwargs: Any) -> nn.Module:
    with torch.device("meta"):
        return make(*args, **kwargs).eval().requires_grad_(False)


def token_ids(length: int) -> Tensor:
    return torch.zeros(1, length, dtype=torch.long, device="meta")


@pytest.fixture(scope="module")
def resnets() -> AuditReport:
    image = torch.empty(1, 3, 224, 224, device="meta")
    teacher = capture(on_meta(ResNet, (3, 4, 6, 3), True), (image,), name="resnet50")
    student = capture(on_meta(ResNet, (2, 2, 2, 2), False), (image,), name="resnet18")
    last = {"layer1.1": "layer1.2", "layer2.1": "layer2.3", "layer3.1": "layer3.5", "layer4.1": "layer4.2"}
    return audit(pair_by_path(teacher, student, last))


def test_resnet_totals(resnets: AuditReport) -> None:
    teacher, student = resnets.teacher, resnets.student
    assert (teacher.total("parameters"), student.total("parameters")) == (25_557_032, 11_689_512)
    assert round(teacher.total("macs") / 1e9, 3) == 4.089
    assert round(student.total("macs") / 1e9, 3) == 1.814
    assert resnets.summary() == (
        "Of 18 paired stages and blocks 5 match as they are, 13 need an adapter; 8 only in the teacher; "
        "0.46 × parameters, 0.44 × MACs."
    )


@pytest.mark.parametrize(
    ("stage", "teacher_shape", "student_shape", "line", "parameters"),
    [
        ("layer1", (1, 256, 56, 56), (1, 64, 56, 56), "Conv1x1(64->256)", 16_384),
        ("layer2", (1, 512, 28, 28), (1, 128, 28, 28), "Conv1x1(128->512)", 65_536),
        ("layer3", (1, 1024, 14, 14), (1, 256, 14, 14), "Conv1x1(256->1024)", 262_144),
        ("layer4", (1, 2048, 7, 7), (1, 512, 7, 7), "Conv1x1(512->2048)", 1_048_576),
    ],
)
def test_resnet_stages_need_a_1x1_convolution(
    resnets: AuditReport,
    stage: str,
    teacher_shape: tuple[int, ...],
    student_shape: tuple[int, ...],
    line: str,
    parameters: int,
) -> None:
    row = resnets.row(stage, level="stage")
    assert row.teacher is not None
    assert row.student is not None
    assert (row.teacher.shape, row.student.shape) == (teacher_shape, student_shape)
    assert row.teacher.names == ("batch", "channels", "height", "width")
    assert row.comparison.classes == ("channels",)
    assert row.comparison.adapter.line() == line
    assert row.comparison.adapter.parameters == parameters


def test_resnet_stage_costs(resnets: AuditReport) -> None:
    millions = {
        cost.stage: (
            round(cost.teacher_parameters / 1e6, 3),
            round(cost.student_parameters / 1e6, 3),
            round(cost.teacher_macs / 1e9, 3),
            round(cost.student_macs / 1e9, 3),
        )
        for cost in resnets.stages
    }
    assert millions["conv1"] == (0.009, 0.009, 0.118, 0.118)
    assert millions["layer1"] == (0.216, 0.148, 0.668, 0.462)
    assert millions["layer2"] == (1.220, 0.526, 1.028, 0.411)
    assert millions["layer3"] == (7.098, 2.100, 1.464, 0.411)
    assert millions["layer4"] == (14.965, 8.394, 0.809, 0.411)
    assert millions["fc"] == (2.049, 0.513, 0.002, 0.001)


def test_resnet_ends_match_and_the_pooled_vector_takes_a_linear_layer(resnets: AuditReport) -> None:
    for path in ("conv1", "fc", ""):
        assert resnets.row(path).comparison.adapter.line() == ""
        assert resnets.row(path).comparison.classes == ()
    pooled = resnets.row("avgpool").comparison.adapter
    assert pooled.line() == "flatten → Linear(512->2048, no bias) → unflatten(1x1)"
    assert pooled.parameters == 1_048_576


def test_the_four_stage_adapters_hold_1_392_640_parameters(resnets: AuditReport) -> None:
    stages = [resnets.row(f"layer{number}", level="stage") for number in range(1, 5)]
    assert sum(row.comparison.adapter.parameters for row in stages) == 1_392_640
    modules = resnets.adapters(paths=[f"layer{number}" for number in range(1, 5)])
    assert sorted(modules) == ["layer1", "layer2", "layer3", "layer4"]
    assert sum(parameter.numel() for parameter in modules.parameters()) == 1_392_640


def test_the_width_is_traced_to_the_convolution_that_sets_it(resnets: AuditReport) -> None:
    cause = resnets.row("layer3", level="stage").cause
    assert "1,024 in the teacher from layer3.5.conv3" in cause
    assert "256 in the student from layer3.1.conv2" in cause


@pytest.fixture(scope="module")
def bert() -> Structure:
    return capture(on_meta(transformers.BertModel, transformers.BertConfig(**EAGER)), (token_ids(128),), name="bert")


def test_bert_to_distilbert_needs_no_adapter(bert: Structure) -> None:
    model = on_meta(transformers.DistilBertModel, transformers.DistilBertConfig(**EAGER))
    student = capture(model, (token_ids(128),), name="distilbert")
    pins = {"transformer": "encoder"}
    names = {
        "attention.q_lin": "attention.self.query",
        "attention.k_lin": "attention.self.key",
        "attention.v_lin": "attention.self.value",
        "attention.out_lin": "attention.output.dense",
        "sa_layer_norm": "attention.output.LayerNorm",
        "ffn.lin1": "intermediate.dense",
        "ffn.lin2": "output.dense",
        "output_layer_norm": "output.LayerNorm",
    }
    for block, source in enumerate((0, 2, 4, 7, 9, 11)):
        pins[f"transformer.layer.{block}"] = f"encoder.layer.{source}"
        for mine, theirs in names.items():
            pins[f"transformer.layer.{block}.{mine}"] = f"encoder.layer.{source}.{theirs}"
    report = audit(pair_by_path(bert, student, pins))
    assert (bert.header.totals.parameters, student.header.totals.parameters) == (109_482_240, 66_362_880)
    assert round(bert.header.totals.macs / 1e9, 3) == 11.174
    assert round(student.header.totals.macs / 1e9, 3) == 5.587
    for path in pins:
        row = report.row(path)
        assert row.comparison.classes == (), path
        assert row.comparison.adapter.line() == ""
    costs = {cost.stage: cost for cost in report.stages}
    assert round(costs["transformer"].teacher_parameters / 1e6, 3) == 85.054
    assert round(costs["transformer"].student_parameters / 1e6, 3) == 42.527
    assert round(costs["embeddings"].teacher_parameters / 1e6, 3) == 23.837
    assert round(costs["embeddings"].student_parameters / 1e6, 3) == 23.836
    assert round(costs["pooler"].teacher_parameters / 1e6, 3) == 0.591
    assert "0.61 × parameters, 0.50 × MACs" in report.summary()


def test_bert_to_tinybert_needs_linear_layers_of_240_384_parameters(bert: Structure) -> None:
    config = transformers.BertConfig(
        hidden_size=312, num_hidden_layers=4, intermediate_size=1200, num_attention_heads=12, **EAGER
    )
    student = capture(on_meta(transformers.BertModel, config), (token_ids(128),), name="tinybert")
    pins = {f"encoder.layer.{block}": f"encoder.layer.{3 * block + 2}" for block in range(4)}
    report = audit(pair_by_path(bert, student, pins))
    assert round(student.header.totals.parameters / 1e6, 2) == 14.35
    assert round(student.header.totals.macs / 1e9, 3) == 0.624
    for path in (*pins, "embeddings"):
        row = report.row(path)
        assert row.comparison.classes == ("hidden",)
        assert row.comparison.adapter.line() == "Linear(312->768)"
        assert row.comparison.adapter.parameters == 240_384


def vit_config(width: int, heads: int) -> transformers.ViTConfig:
    return transformers.ViTConfig(
        hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width, num_labels=1000, **EAGER
    )


@pytest.fixture(scope="module")
def vits() -> AuditReport:
    image = torch.empty(1, 3, 224, 224, device="meta")
    make = transformers.ViTForImageClassification
    teacher = capture(on_meta(make, vit_config(768, 12)), (image,), name="vit_b_16")
    student = capture(on_meta(make, vit_config(192, 3)), (image,), name="deit_ti")
    return audit(pair_by_path(teacher, student))


def test_vit_to_deit_tiny(vits: AuditReport) -> None:
    assert round(vits.teacher.total("parameters") / 1e6, 2) == 86.57
    assert round(vits.student.total("parameters") / 1e6, 2) == 5.72
    assert round(vits.teacher.total("macs") / 1e9, 3) == 17.564
    assert round(vits.student.total("macs") / 1e9, 3) == 1.254
    blocks = [row for row in vits.rows if row.level == 2 and row.stage == "vit.layers"]
    assert len(blocks) == 12
    for row in blocks:
        assert row.comparison.classes == ("hidden",)
        assert row.comparison.adapter.line() == "Linear(192->768)"
        assert row.comparison.adapter.parameters == 148_224
        assert round(row.teacher_parameters / 1e6, 3) == 7.088
        assert round(row.student_parameters / 1e6, 3) == 0.445
        assert round(row.teacher_macs / 1e9, 3) == 1.454
        assert round(row.student_macs / 1e9, 3) == 0.102
        assert row.student is not None
        assert [dimension.text() for dimension in row.student.dimensions] == [
            "batch 1",
            "tokens 197 = 1 + 14x14",
            "hidden 192",
        ]
    assert vits.row("").comparison.classes == ()  # 1000 classes on both sides


def test_attention_of_12_and_3_heads_repeats_each_students_head_four_times(vits: AuditReport) -> None:
    from tb_plugin_structure.analysis.audit.compare import compare

    call = next(row for row in vits.rows if row.student_path == "vit.layers.0.attention")
    teacher = vits.teacher.feature(call.pair.teacher, "1")
    student = vits.student.feature(call.pair.student, "1")
    assert student.names == ("batch", "heads", "tokens", "keys")
    comparison = compare(teacher, student)
    assert comparison.classes == ("heads",)
    assert comparison.adapter.line() == "select[1] → RepeatHeads(x4)"


def test_llama_70b_to_8b_takes_bias_free_layers_and_keys_need_none() -> None:
    common = {"vocab_size": 128256, "num_key_value_heads": 8, **EAGER}
    configs = [
        transformers.LlamaConfig(
            hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, intermediate_size=28672, **common
        ),
        transformers.LlamaConfig(
            hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=14336, **common
        ),
    ]
    teacher, student = (
        capture(on_meta(transformers.LlamaForCausalLM, config), (token_ids(128),), name=name)
        for config, name in zip(configs, ("llama70b", "llama8b"), strict=True)
    )
    report = audit(pair_by_path(teacher, student))
    assert round(teacher.header.totals.parameters / 1e6, 1) == 70_553.7
    assert round(student.header.totals.parameters / 1e6, 1) == 8_030.3
    assert round(teacher.header.totals.macs / 1e9, 1) == 8917.7
    assert round(student.header.totals.macs / 1e9, 1) == 964.9
    block = report.row("model.layers.0")
    assert block.comparison.adapter.line() == "Linear(4096->8192, no bias)"
    assert block.comparison.adapter.parameters == 33_554_432
    assert round(block.teacher_parameters / 1e6, 2) == 855.65
    assert round(block.student_parameters / 1e6, 2) == 218.11
    assert report.row("model.layers.0.self_attn.k_proj").comparison.classes == ()
    assert report.row("model.layers.0.self_attn.v_proj").comparison.classes == ()
    assert report.row("model.layers.0.self_attn.q_proj").comparison.classes == ("hidden",)
    assert report.row("").comparison.classes == ()


def test_whisper_to_distil_whisper_keeps_the_encoder() -> None:
    def config(layers: int) -> transformers.WhisperConfig:
        return transformers.WhisperConfig(
            d_model=1280, encoder_layers=32, decoder_layers=layers, encoder_attention_heads=20,
            decoder_attention_heads=20, encoder_ffn_dim=5120, decoder_ffn_dim=5120, vocab_size=51865,
            num_mel_bins=80, **EAGER,
        )  # fmt: skip

    inputs = {
        "input_features": torch.zeros(1, 80, 3000, device="meta"),
        "decoder_input_ids": token_ids(64),
    }
    make = transformers.WhisperForConditionalGeneration
    teacher, student = (
        capture(on_meta(make, config(layers)), (), inputs, name=name) for layers, name in ((32, "large"), (2, "distil"))
    )
    report = audit(pair_by_path(teacher, student, {"model.decoder.layers.1": "model.decoder.layers.31"}))
    assert round(teacher.header.totals.parameters / 1e6, 1) == 1543.3
    assert round(student.header.totals.parameters / 1e6, 1) == 756.2
    assert round(teacher.header.totals.macs / 1e9, 1) == 1353.0
    assert round(student.header.totals.macs / 1e9, 1) == 1153.9
    costs = {cost.stage: cost for cost in report.stages}
    encoder, decoder = costs["model.encoder"], costs["model.decoder"]
    assert round(encoder.teacher_parameters / 1e6, 1) == round(encoder.student_parameters / 1e6, 1) == 636.8
    assert round(encoder.teacher_macs / 1e9, 1) == round(encoder.student_macs / 1e9, 1) == 1136.3
    assert round(decoder.teacher_parameters / 1e6, 1) == 906.5
    assert round(decoder.student_parameters / 1e6, 1) == 119.4
    for path in ("model.encoder", "model.decoder.layers.0", "model.decoder.layers.1", "proj_out"):
        assert report.row(path).comparison.classes == (), path
    assert "tied-weights" in {finding.rule for finding in report.findings}


def test_a_list_of_blocks_that_are_stages_of_their_own_is_not_counted_with_the_first() -> None:
    """The blocks of a transformer, paired with the stages of a convolutional network."""
    model = nn.Sequential(OrderedDict(blocks=nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 8, 1))))
    structure = capture(model, (torch.ones(1, 3, 2, 2),))
    stages = {"blocks": "layer1", "blocks.0": "layer1", "blocks.1": "layer2"}
    rows = [
        replace(row, stage=stages[row.student.path])
        for row in audit(pair_by_path(structure, structure)).rows
        if row.student is not None and row.student.path
    ]
    sides = (Side(structure, "teacher"), Side(structure, "student"))
    costs = {cost.stage: (cost.teacher_parameters, cost.student_parameters) for cost in stage_costs(rows, *sides)}
    assert costs == {"layer1": (16, 16), "layer2": (40, 40)}
