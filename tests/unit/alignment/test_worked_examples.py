"""Pairs that people published: recorded from real models, compared with their tables."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn

from examples.models.resnet import resnet18, resnet50
from examples.models.vit import VisionTransformer
from tb_plugin_structure.analysis.alignment import Alignment, align
from tb_plugin_structure.capture import capture
from tb_plugin_structure.v1 import alignment_pb2

BERT = {"attn_implementation": "eager"}


@pytest.fixture(scope="module")
def bert_and_distilbert() -> Alignment:
    ids = torch.zeros(1, 128, dtype=torch.long, device="meta")
    with torch.device("meta"):
        teacher = transformers.BertModel(transformers.BertConfig(**BERT)).eval()
        student = transformers.DistilBertModel(transformers.DistilBertConfig(**BERT)).eval()
    return align(
        teacher=capture(teacher, (), {"input_ids": ids}, name="bert"),
        student=capture(student, (), {"input_ids": ids}, name="distilbert"),
    )


@pytest.fixture(scope="module")
def resnets() -> Alignment:
    image = torch.zeros(1, 3, 224, 224, device="meta")
    with torch.device("meta"):
        teacher, student = resnet50().eval(), resnet18().eval()
    return align(
        teacher=capture(teacher, (image,), name="resnet50"), student=capture(student, (image,), name="resnet18")
    )


@pytest.mark.parametrize(("student", "teacher"), [(0, 0), (1, 2), (2, 4), (3, 7), (4, 9), (5, 11)])
def test_distilbert_leaves_have_the_parameters_they_were_copied_from(
    bert_and_distilbert: Alignment, student: int, teacher: int
) -> None:
    pairs = bert_and_distilbert.module_pairs()
    block, copied = f"transformer.layer.{student}", f"encoder.layer.{teacher}"
    assert pairs[block] == [copied]
    for leaf, source in {
        "attention.q_lin": "attention.self.query",
        "attention.k_lin": "attention.self.key",
        "attention.v_lin": "attention.self.value",
        "attention.out_lin": "attention.output.dense",
        "sa_layer_norm": "attention.output.LayerNorm",
        "ffn.lin1": "intermediate.dense",
        "ffn.lin2": "output.dense",
        "output_layer_norm": "output.LayerNorm",
    }.items():
        assert pairs[f"{block}.{leaf}"][0] == f"{copied}.{source}"


def test_the_sentence_about_distilbert(bert_and_distilbert: Alignment) -> None:
    assert bert_and_distilbert.summary() == (
        "The student has 6 of 12 blocks of encoder.layer, width 768 = 768; embeddings.token_type_embeddings and pooler "
        "are only in the teacher; 0.61 × parameters, 0.50 × MACs."
    )
    assert bert_and_distilbert.edits[0].text == "encoder.layer ×12 → ×6 (policy copy: 0, 2, 4, 7, 9, 11)"
    (stack,) = bert_and_distilbert.stacks
    assert stack.interchangeable


@pytest.mark.parametrize(("stage", "last"), [(1, 2), (2, 3), (3, 5), (4, 2)])
def test_residual_stages_are_anchored_at_their_ends(resnets: Alignment, stage: int, last: int) -> None:
    pairs = resnets.module_pairs()
    assert pairs[f"layer{stage}"] == [f"layer{stage}"]
    assert pairs[f"layer{stage}.1"] == [f"layer{stage}.{last}"]
    assert pairs[f"layer{stage}.0"] == [f"layer{stage}.0"]


def test_stem_pooling_and_classifier_of_residual_networks_stay(resnets: Alignment) -> None:
    pairs = resnets.module_pairs()
    assert {name: pairs[name] for name in ("conv1", "bn1", "maxpool", "avgpool", "fc")} == {
        name: [name] for name in ("conv1", "bn1", "maxpool", "avgpool", "fc")
    }
    assert "0.46 × parameters, 0.44 × MACs" in resnets.summary()


def test_operators_inside_paired_calls_are_paired(bert_and_distilbert: Alignment) -> None:
    operators = bert_and_distilbert.operator_pairs
    teacher, student = bert_and_distilbert.teacher.operators, bert_and_distilbert.student.operators
    both = [
        (teacher.text("name", t), student.text("name", s))
        for t, s in zip(operators.teacher.tolist(), operators.student.tolist(), strict=True)
        if t >= 0 and s >= 0
    ]
    assert both.count(("linear", "linear")) == 36
    assert sum(first == second for first, second in both) == len(both)
    table = bert_and_distilbert.to_proto().operator_pairs
    assert table.rows == len(operators.pair)


def test_unlike_families_stop_at_stages() -> None:
    image = torch.zeros(1, 3, 224, 224, device="meta")
    with torch.device("meta"):
        teacher = resnet50().eval()
        student = transformers.ViTModel(transformers.ViTConfig(**BERT), add_pooling_layer=False).eval()
    alignment = align(
        teacher=capture(teacher, (image,), name="resnet50"), student=capture(student, (image,), name="vit")
    )
    pairs = alignment.module_pairs()
    blocks = {path: listed for path, listed in pairs.items() if path.split(".")[-1].isdigit()}
    assert list(blocks.values()) == [["layer1"], ["layer2"], ["layer3"], ["layer4"]]
    assert [path.rpartition(".")[2] for path in blocks] == ["1", "3", "9", "11"]
    assert not [path for path in pairs if any(path.startswith(block + ".") for block in blocks)]
    assert alignment.summary().startswith("The families are unlike and paired by stage: layer1 ~ ")


class _LowRank(nn.Module):
    """A linear layer with a low-rank adapter beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 4, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(4, base.out_features, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        adapted: torch.Tensor = self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))
        return adapted


def test_an_adapted_layer_is_paired_with_its_base() -> None:
    ids = torch.zeros(1, 16, dtype=torch.long)
    config = transformers.DistilBertConfig(vocab_size=50, dim=32, n_layers=2, n_heads=4, hidden_dim=64, **BERT)
    torch.manual_seed(0)
    teacher = transformers.DistilBertModel(config).eval()
    student = transformers.DistilBertModel(config).eval()
    student.load_state_dict(teacher.state_dict())
    for block in student.transformer.layer:
        block.attention.q_lin = _LowRank(block.attention.q_lin)
    alignment = align(
        teacher=capture(teacher, (), {"input_ids": ids}, name="teacher"),
        student=capture(student, (), {"input_ids": ids}, name="student"),
    )
    pairs = alignment.module_pairs()
    query = "transformer.layer.1.attention.q_lin"
    assert pairs[query] == [query]
    assert pairs[f"{query}.base_layer"] == [query]
    assert f"{query}.lora_A.default" not in pairs
    inserted = [row for row in alignment.rows if row.kind == alignment_pb2.PAIR_KIND_INSERTED]
    assert len(inserted) == 4


def test_one_layer_for_query_key_and_value_is_paired_with_all_three() -> None:
    torch.manual_seed(0)
    teacher = VisionTransformer(width=48, depth=2, heads=3).eval()
    config = transformers.ViTConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=192, image_size=8, patch_size=2,
        num_channels=1, **BERT,
    )  # fmt: skip
    student = transformers.ViTModel(config, add_pooling_layer=False).eval()
    image = torch.zeros(1, 1, 8, 8)
    alignment = align(
        teacher=capture(teacher, (image,), name="fused"), student=capture(student, (image,), name="separate")
    )
    fused = [row for row in alignment.rows if row.evidence and row.evidence[0] == "fused projections of one input"]
    assert [alignment.teacher.call_path(row.teacher) for row in fused] == ["blocks.0.attn.qkv"] * 3 + [
        "blocks.1.attn.qkv"
    ] * 3
    assert len({row.student for row in fused}) == 6
    assert len({row.group for row in fused}) == 2
    back = align(teacher=alignment.student, student=alignment.teacher).module_pairs()
    assert len(back["blocks.0.attn.qkv"]) == 3


def test_a_transformer_and_a_network_with_stages_share_nothing_across_the_order_of_their_stages() -> None:
    with torch.device("meta"):
        image = torch.zeros(1, 3, 64, 64)
        teacher = transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64, image_size=64, **BERT
            )
        ).eval()
        student = resnet18().eval()
    records = capture(teacher, (image,), name="vit"), capture(student, (image,), name="resnet")
    pairs = align(teacher=records[0], student=records[1]).module_pairs()
    blocks = [f"vit.layers.{k}" for k in range(4)]
    assert pairs == {"": [""], **{f"layer{k + 1}": [blocks[k]] for k in range(4)}, "fc": ["classifier"]}
    back = align(teacher=records[1], student=records[0]).module_pairs()
    assert back == {teacher: [student] for student, (teacher,) in pairs.items()}
