"""Faults that people reported, in small: the audit would have told them before the first step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.capture import CaptureFailed, capture, observe

from .faulty_models import IMAGE, Language, Small, found, frozen, record, step
from .pairing import pair_by_path


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_pytorch_16045_a_loss_of_n_1_and_n() -> None:
    """pytorch/pytorch#16045: [n, 1] and [n] broadcast to [n, n] without an error."""
    message = step(lambda t, s, y: F.mse_loss(s.max(1, keepdim=True).values, t.max(1).values))[
        "silent-broadcast"
    ].message
    assert "[2, 1] and [2] broadcast to [2, 2]" in message


def test_pytorch_4534_batch_norm_with_a_batch_of_one() -> None:
    """pytorch/pytorch#4534: "Expected more than 1 value per channel when training"."""
    with pytest.raises(CaptureFailed) as failure:
        capture(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), (torch.ones(1, 4),), name="student")
    assert "batchnorm-single-value" in found(record(frozen(Small())), failure.value.structure)


def test_omdet_19_attention_over_the_batch_of_an_image() -> None:
    """om-ai-lab/OmDet#19: an encoder over image features without batch_first=True."""

    class Encoder(nn.Module):
        def __init__(self, batch_first: bool) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 4, 4)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
            self.head = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            x = self.conv(x).flatten(2).transpose(1, 2)
            return self.head(self.attention(x, x, x)[0].mean(1))

    findings = found(record(frozen(Encoder(batch_first=False))))
    assert (
        "attention has batch_first=False and is given [batch 2, tokens 4 = 2x2"
        in findings["dimensions-swapped"][0].message
    )
    assert "dimensions-swapped" not in found(record(frozen(Encoder(batch_first=True))))


def test_person_reid_77_squeeze_takes_the_batch_along() -> None:
    """layumi/Person_reID_baseline_pytorch#77: torch.squeeze of [1, 2048, 1, 1] in the last batch."""

    def squeezed(self: Small, x: Tensor) -> Tensor:
        return self.fc(F.adaptive_avg_pool2d(self.bn(self.conv(x)), 1).squeeze())

    def flat(self: Small, x: Tensor) -> Tensor:
        return self.fc(F.adaptive_avg_pool2d(self.bn(self.conv(x)), 1).flatten(1))

    one = record(frozen(Small(body=squeezed)), IMAGE[:1])
    messages = {f.subject: f.message for f in found(one, record(frozen(Small()), IMAGE[:1]))["size-one-dimension"]}
    assert messages["pair"] == "the teacher gives [5], the student [1, 5]"
    assert "removed the batch: [1, 8, 1, 1] to [8]" in messages["teacher"]
    assert found(record(frozen(Small(body=squeezed))))["size-one-dimension"][0].severity == "info"
    assert "size-one-dimension" not in found(record(frozen(Small(body=flat))))


def test_transformer_from_scratch_6_heads_are_joined_without_a_permute() -> None:
    """jsbaan/transformer-from-scratch#6: [batch, heads, tokens, head_dim] reshaped to [batch, tokens, hidden]."""

    class Attention(nn.Module):
        def __init__(self, permutes: bool) -> None:
            super().__init__()
            self.embed, self.qkv, self.head = nn.Embedding(9, 12), nn.Linear(12, 12), nn.Linear(12, 5)
            self.permutes = permutes

        def forward(self, ids: Tensor) -> Tensor:
            x = self.qkv(self.embed(ids))
            heads = x.view(2, 5, 3, 4).transpose(1, 2)
            values = (heads @ heads.transpose(-1, -2)).softmax(-1) @ heads
            if self.permutes:
                values = values.permute(0, 2, 1, 3)
            return self.head(values.reshape(2, 5, 12))

    ids = torch.zeros(2, 5, dtype=torch.long)
    student = record(frozen(Language(9)), ids)
    finding = found(record(frozen(Attention(permutes=False)), ids), student)["view-by-accident"][0]
    assert "[batch 2, heads 3, tokens 5, head_dim 4] as [2, 5, 12]" in finding.message
    assert "view-by-accident" not in found(record(frozen(Attention(permutes=True)), ids), student)


def test_open_sora_plan_171_time_is_folded_into_the_batch_without_a_permute() -> None:
    """PKU-YuanGroup/Open-Sora-Plan#171: [b, c, t, h, w] reshaped to [b·t, c, h·w]."""

    class Block(nn.Module):
        def __init__(self, permutes: bool) -> None:
            super().__init__()
            self.conv, self.permutes = nn.Conv3d(3, 8, 1), permutes

        def forward(self, x: Tensor) -> Tensor:
            x = self.conv(x)
            b, c, t, h, w = x.shape
            if self.permutes:
                x = x.permute(0, 2, 1, 3, 4)
            return x.reshape(b * t, c, h * w)

    clip = torch.ones(2, 3, 5, 4, 4)
    student = record(frozen(nn.Conv3d(3, 8, 1)), clip)
    assert "view-by-accident" in found(record(frozen(Block(permutes=False)), clip), student)
    assert "view-by-accident" not in found(record(frozen(Block(permutes=True)), clip), student)


def test_euclidesdb_2_softmax_over_dimension_0() -> None:
    """perone/euclidesdb#2: dim=0 is the batch."""
    model = Small(body=lambda self, x: self.fc(self.bn(self.conv(x)).mean((2, 3))).softmax(0))
    assert "softmax-over-batch" in found(record(frozen(model)))


def test_fcos_217_a_layer_that_is_defined_but_not_used() -> None:
    """tianzhi0549/FCOS#217: DistributedDataParallel stops on it in the first backward pass."""
    model = Small()
    model.centerness = nn.Conv2d(8, 1, 3)
    assert found(record(frozen(model)))["dead-module"][0].module_path == "centerness"


def test_dnabert_1_what_the_last_layer_computes_reaches_no_output() -> None:
    """joanaapa/Distillation-DNABERT-Promoter#1: a loss on attention alone leaves the rest of the last layer unused."""

    def forward(self: Small, x: Tensor) -> Tensor:
        features = self.bn(self.conv(x))
        self.fc(features.mean((2, 3)))
        return features

    findings = found(record(Small(body=forward).eval()))["unused-parameter"]
    assert [finding.message for finding in findings if finding.subject == "teacher"] == [
        "2 parameters (45 elements), first fc.weight, reach no output",
    ]


def test_lightly_train_352_a_teacher_in_eval_mode_that_still_trains() -> None:
    """lightly-ai/lightly-train#352 and haitongli/knowledge-distillation-pytorch#25: eval() stops no gradient."""
    finding = found(record(Small().eval()), record(Small().train()))["teacher-trainable"][0]
    assert finding.severity == "warning"


def test_trl_6526_the_loss_keeps_the_teachers_graph() -> None:
    """Review of huggingface/trl#6526: the teacher's projection builds an autograd graph that nobody needs."""
    findings = step(lambda t, s, y: F.mse_loss(s, t), detach=False)
    assert {"teacher-output-with-grad", "teacher-receives-gradient"} <= set(findings)


def test_yolov8_distillation_16_teacher_parameters_in_the_optimizer() -> None:
    """huangzongmou/yolov8_Distillation#16."""
    assert "teacher-in-optimizer" in step(lambda t, s, y: F.mse_loss(s, t), also_trained=lambda t: t.parameters())


def test_sparseml_2191_a_parents_train_switches_the_teacher_back() -> None:
    """neuralmagic/sparseml#2191: the teacher is a submodule of what train() is called on."""
    both = nn.ModuleDict({"teacher": Small().eval(), "student": Small()}).train()
    assert "teacher-training-mode" in found(record(both["teacher"]), record(both["student"]))


def test_vrvlive_2_dropout_in_the_teacher() -> None:
    """vrvlive/knowlege-distillation#2: eval() is never called on the teacher."""
    assert found(record(Small().train()))["dropout-in-teacher"][0].module_path == "drop"


def test_yolo_distiller_13_hooks_on_paths_with_a_wrappers_prefix() -> None:
    """danielsyahputra/yolo-distiller#13 and segmind/distill-sd#10: under DDP the hooks match nothing."""
    findings = found(record(frozen(Small())), hooks=[("module.conv", "conv"), ("fc", "fc")])["hook-never-fires"]
    assert [finding.message for finding in findings] == [
        "a hook on 'module.conv' never fires: there is no such module; without its prefix it is 'conv'"
    ]


def test_mmrazor_636_a_recorder_on_a_module_that_is_not_called() -> None:
    """open-mmlab/mmrazor#636: the recorder fails deep inside training; the list itself is never called."""
    model = Small(body=lambda self, x: self.fc(self.levels[0](self.conv(x)).mean((2, 3))))
    model.levels = nn.ModuleList([nn.BatchNorm2d(8)])
    student = record(frozen(Small()))
    findings = found(record(frozen(model)), student, hooks=[("levels", "bn"), ("bn", "bn"), ("levels.0", "bnn")])
    assert [finding.message for finding in findings["hook-never-fires"]] == [
        "a hook on 'levels' never fires: a ModuleList is not called itself; hook one of its elements",
        "a hook on 'bn' never fires: the pass never called this BatchNorm2d",
        "a hook on 'bnn' never fires: there is no such module; nearest: bn",
    ]


@pytest.mark.parametrize(
    ("teacher", "student", "expected"), [(1536, 1530, "padded-vocabulary"), (1536, 900, "vocabularies-differ")]
)
def test_torchtune_2119_and_trl_4562_vocabularies(teacher: int, student: int, expected: str) -> None:
    """meta-pytorch/torchtune#2119: 152064 against 151936 is padding; huggingface/trl#4562: another tokenizer is not."""
    ids = torch.zeros(2, 4, dtype=torch.long)
    findings = found(*(record(frozen(Language(size)), ids) for size in (teacher, student)))
    assert expected in findings


def test_trl_6526_hidden_states_reshaped_with_the_students_width() -> None:
    """Review of huggingface/trl#6526: the teacher's hidden states are viewed under the student's width."""
    teacher, student = frozen(nn.Linear(3, 6)), nn.Linear(3, 4)
    x = torch.ones(2, 2, 3)
    with observe({"teacher": teacher, "student": student}) as region:
        F.mse_loss(student(x).mean((0, 1)), teacher(x).reshape(-1, 4).mean(0)).backward()
    alignment = pair_by_path(region.structures["teacher"], region.structures["student"])
    rules = {finding.rule for finding in audit(alignment, outside=region.outside).findings}
    assert "feature-reshaped-in-loss" in rules


def test_mmrazor_190_features_of_two_precisions() -> None:
    """open-mmlab/mmrazor#190: fp16 features meet fp32 adapters."""
    half = capture(frozen(Small()).bfloat16(), (IMAGE.bfloat16(),), name="teacher")
    assert "pair-dtype" in found(half)


def test_pkd_6_half_is_hard_wired() -> None:
    """intersun/PKD-for-BERT-Model-Compression#6: .half() in the loss whatever the models' precision."""
    message = step(lambda t, s, y: F.mse_loss(s.half().float(), t.half().float()))["half-precision-cast"].message
    assert message.startswith("float32 values become float16 in the loss (")


def test_bdpy_16_a_hooked_batch_norm_is_rectified_later() -> None:
    """KamitaniLab/bdpy#16: the next ReLU works in place on what the hook keeps."""
    model = Small(body=lambda self, x: self.fc(F.relu_(self.bn(self.conv(x))).mean((2, 3))))
    assert found(record(frozen(model)))["modified-after-return"][0].module_path == "bn"


def test_structure_knowledge_distillation_48_the_rounding_is_traced_to_the_pooling() -> None:
    """irfanICMLL/structure_knowledge_distillation#48: 65x65 against 64x64, from ceil_mode."""

    class Net(nn.Module):
        def __init__(self, ceil_mode: bool) -> None:
            super().__init__()
            self.conv, self.pool = nn.Conv2d(3, 4, 3, 2, 1), nn.MaxPool2d(3, 2, 1, ceil_mode=ceil_mode)
            self.last = nn.Conv2d(4, 4, 3, 1, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.pool(self.conv(x)))

    image = torch.zeros(1, 3, 256, 256)
    report = audit(pair_by_path(*(record(frozen(Net(mode)), image) for mode in (True, False))))
    row: Any = report.row("last")
    assert (row.teacher.shape[2:], row.student.shape[2:]) == ((65, 65), (64, 64))
    assert row.comparison.classes == ("off by one",)
    assert "pool (128x128 to 64x64" in row.cause
    assert "rounds differently" in row.cause
    assert "ceil_mode True" in row.cause
