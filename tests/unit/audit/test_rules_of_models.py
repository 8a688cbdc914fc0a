"""What the rules about the models themselves say, and what they leave alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.capture import CaptureFailed, capture

from .faulty_models import IMAGE, Language, Small, found, frozen, record, warned
from .pairing import pair_by_path


def test_trainable_teacher_of_a_training_student_warns() -> None:
    teacher = record(Small().eval())
    finding = found(teacher, record(Small().train()))["teacher-trainable"][0]
    assert (finding.severity, finding.subject) == ("warning", "teacher")
    assert "285 of the teacher's 285" in finding.message
    assert found(teacher)["teacher-trainable"][0].severity == "info"  # both only recorded, nothing trains yet


def test_teacher_in_training_mode_and_its_dropout() -> None:
    findings = found(record(Small().train()))
    assert "first bn" in findings["teacher-training-mode"][0].message
    assert findings["dropout-in-teacher"][0].module_path == "drop"


def test_a_student_in_training_mode_is_as_it_should_be() -> None:
    findings = found(record(frozen(Small())), record(Small().train()))
    assert warned(findings) == set()


def test_dead_module() -> None:
    model = Small()
    model.unused = nn.Linear(4, 4)
    finding = found(record(frozen(model)))["dead-module"][0]
    assert "unused (Linear, 20 parameters) never called" in finding.message


def test_a_variant_for_other_inputs_is_no_warning() -> None:
    """Longformer has query, and query_global for inputs with global attention; fc2 beside fc is forgotten."""
    model = Small()
    model.fc_global, model.fc2 = (nn.Linear(model.fc.in_features, model.fc.out_features) for _ in range(2))
    findings = found(record(frozen(Small())), record(model))["dead-module"]
    assert {(f.module_path, f.severity) for f in findings} == {("fc_global", "info"), ("fc2", "warning")}


def test_a_module_whose_weight_is_used_without_calling_it_is_not_dead() -> None:
    model = Small(body=lambda self, x: F.linear(self.bn(self.conv(x)).mean((2, 3)), self.fc.weight, self.fc.bias))
    assert "dead-module" not in found(record(frozen(model)))


def test_an_expert_that_got_no_token_is_no_warning() -> None:
    def route(self: Small, x: Tensor) -> Tensor:
        return self.fc(self.experts[1](self.conv(x).mean((2, 3))))

    model = Small(body=route)
    model.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
    findings = found(record(frozen(Small())), record(frozen(model)))["dead-module"]
    assert {finding.severity for finding in findings} == {"warning", "info"}  # bn is dead, the experts are routed to
    assert all("experts" in finding.module_path for finding in findings if finding.severity == "info")


def test_unused_parameter() -> None:
    model = Small().eval()
    model.extra = nn.Parameter(torch.ones(3))
    assert "extra" in found(record(model))["unused-parameter"][0].message


def test_batch_norm_over_one_value_per_channel() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
    with pytest.raises(CaptureFailed) as failure:
        capture(model, (torch.ones(1, 4),), name="student")
    assert failure.value.structure is not None
    findings = found(record(frozen(Small())), failure.value.structure)
    assert findings["batchnorm-single-value"][0].module_path == "1"


def test_output_that_changes_after_it_was_returned() -> None:
    """A hooked batch norm whose output the next ReLU rectifies in place."""
    model = Small(body=lambda self, x: self.fc(self.act(self.bn(self.conv(x))).mean((2, 3))))
    model.act = nn.ReLU(inplace=True)
    finding = found(record(frozen(model)))["modified-after-return"][0]
    assert finding.module_path == "bn"
    assert finding.severity == "info"
    model.act = nn.ReLU()
    assert "modified-after-return" not in found(record(frozen(model)))


@pytest.mark.parametrize(("is_sum", "severity"), [(True, "warning"), (False, "info")])
def test_a_stage_that_another_value_is_written_into_is_a_warning(is_sum: bool, severity: str) -> None:
    """A residual sum in place leaves nothing of the stage's output; an activation, as in DenseNet, a feature."""

    class Stages(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stage1 = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
            self.stage2 = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.stage1(x)
            x = x.add_(self.stage2(x)) if is_sum else self.stage2(x.relu_())
            return x.mean((2, 3))

    finding = found(record(frozen(Stages())))["modified-after-return"][0]
    assert (finding.module_path.split(".")[0], finding.severity) == ("stage1", severity)


def test_a_hook_on_what_changes_later_is_a_warning() -> None:
    model = Small(body=lambda self, x: self.fc(self.act(self.bn(self.conv(x))).mean((2, 3))))
    model.act = nn.ReLU(inplace=True)
    report = audit(pair_by_path(record(frozen(model)), record(frozen(model))), hooks=[("bn", "conv")])
    (finding,) = [each for each in report.findings if each.rule == "modified-after-return" and each.severity != "info"]
    assert (finding.subject, finding.module_path) == ("teacher", "bn")


def test_a_state_that_a_stage_hands_on_beside_its_output_may_change() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
            x = self.norm(self.mix(x))
            state[0] = x.detach()[0]
            return x, state

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            state = torch.zeros(3, 4)
            for layer in self.layers:
                x, state = layer(x, state)
            return x

    model = frozen(Recurrent())
    findings = found(capture(model, (torch.randn(2, 4),), name="teacher"))["modified-after-return"]
    assert {finding.severity for finding in findings} == {"info"}


def test_the_shift_of_relative_positions_is_no_accident() -> None:
    class Skewed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            heads = [part(x).unflatten(2, (2, 4)).transpose(1, 2) for part in (self.query, self.key)]
            scores = F.pad(heads[0] @ heads[1].transpose(2, 3), (0, 0, 0, 1))
            shifted = scores.view(*scores.shape[:-2], scores.shape[-1], scores.shape[-2])
            return shifted.softmax(-1)

    structure = capture(frozen(Skewed()), (torch.randn(2, 5, 8),), name="teacher")
    assert "view-by-accident" not in found(structure)


def test_a_head_that_only_training_needs_is_no_warning_in_a_teacher() -> None:
    def with_auxiliary() -> Small:
        model = Small()
        model.auxiliary = nn.Linear(8, 5)
        return model

    findings = found(record(frozen(with_auxiliary())), record(frozen(with_auxiliary())))["dead-module"]
    assert [(finding.subject, finding.severity) for finding in findings] == [
        ("student", "warning"),
        ("teacher", "info"),
    ]
    (in_training,) = found(record(with_auxiliary().train()), record(frozen(Small())))["dead-module"]
    assert in_training.severity == "warning"


def test_promotion_to_double_precision() -> None:
    scale = torch.tensor([2.0], dtype=torch.float64)
    model = Small(body=lambda self, x: self.fc((self.bn(self.conv(x)) * scale).float().mean((2, 3))))
    finding = found(record(frozen(model)))["promotion-to-float64"][0]
    assert "test_rules_of_models.py" in finding.message


def test_pair_of_different_dtypes() -> None:
    half = capture(frozen(Small()).bfloat16(), (IMAGE.bfloat16(),), name="teacher")
    report = audit(pair_by_path(half, record(frozen(Small()))))
    assert report.row("conv").comparison.adapter.line() == "to(bfloat16)"
    assert [f.rule for f in report.findings if f.rule == "pair-dtype"] == ["pair-dtype"]


def test_tied_weights() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    assert "1.weight" in found(record(frozen(model), torch.ones(2, 4)))["tied-weights"][0].message


def test_capacity_gap() -> None:
    findings = found(record(frozen(Small(width=400))), record(frozen(Small(width=8))))
    assert "capacity-gap" in warned(findings)
    assert "capacity-gap" not in found(record(frozen(Small(width=64))), record(frozen(Small(width=8))))


@pytest.mark.parametrize(
    ("teacher", "student", "rule_id"),
    [(1280, 1270, "padded-vocabulary"), (1000, 700, "vocabularies-differ"), (640, 640, "")],
)
def test_vocabularies(teacher: int, student: int, rule_id: str) -> None:
    """Qwen2.5's 152064 and 151936 logits in small."""
    ids = torch.zeros(2, 4, dtype=torch.long)
    records = [record(frozen(Language(size)), ids) for size in (teacher, student)]
    assert warned(found(*records)) == ({rule_id} if rule_id else set())


def test_vocabulary_with_a_padded_student_is_cut() -> None:
    ids = torch.zeros(2, 4, dtype=torch.long)
    report = audit(pair_by_path(*(record(frozen(Language(size)), ids) for size in (1270, 1280))))
    assert report.row("").comparison.adapter.line() == "select[logits] → truncate(:1270)"


def test_classes_that_differ() -> None:
    model = Small()
    model.fc = nn.Linear(8, 7)
    findings = found(record(frozen(model)))
    assert "7 outputs in the teacher, 5 in the student" in findings["classes-differ"][0].message


def test_view_that_agrees_by_accident() -> None:
    def wrong(self: Small, x: Tensor) -> Tensor:
        maps = self.bn(self.conv(x))
        return self.fc(maps.view(2, 64, 8).mean(1))

    def right(self: Small, x: Tensor) -> Tensor:
        return self.fc(self.bn(self.conv(x)).flatten(2).transpose(1, 2).reshape(2, 64, 8).mean(1))

    finding = found(record(frozen(Small(body=wrong))))["view-by-accident"][0]
    assert "channels 8, height 8, width 8] as [2, 64, 8]" in finding.message
    assert "test_rules_of_models.py" in finding.message
    assert "view-by-accident" not in found(record(frozen(Small(body=right))))


def test_softmax_over_the_batch() -> None:
    wrong = Small(body=lambda self, x: self.fc(self.bn(self.conv(x)).mean((2, 3))).softmax(0))
    right = Small(body=lambda self, x: self.fc(self.bn(self.conv(x)).mean((2, 3))).softmax(1))
    assert "softmax-over-batch" in warned(found(record(frozen(wrong))))
    assert "softmax-over-batch" not in found(record(frozen(right)))


def test_batch_that_is_lost() -> None:
    wrong = Small(body=lambda self, x: self.fc(self.bn(self.conv(x)).mean((2, 3))).mean(0))
    assert "5] has no batch dimension" in found(record(frozen(wrong)))["batch-lost"][0].message
    assert "batch-lost" not in found(record(frozen(Small())))


def test_batch_that_is_folded_into_the_tokens() -> None:
    ids = torch.zeros(2, 4, dtype=torch.long)

    class Folded(Language):
        def forward(self, ids: Tensor) -> Tensor:
            return self.lm_head(self.embed(ids)).flatten(0, 1)

    assert "folds the batch" in found(record(frozen(Folded(64)), ids))["batch-folded"][0].message


def test_layer_norm_over_the_width_of_a_map() -> None:
    model = Small(body=lambda self, x: self.fc(self.norm(self.conv(x)).mean((2, 3))))
    model.norm = nn.LayerNorm(8)
    finding = found(record(frozen(model)))["norm-over-position"][0]
    assert finding.module_path == "norm"
    assert "over width" in finding.message
    model.body = lambda self, x: self.fc(self.norm(self.conv(x).permute(0, 2, 3, 1)).mean((1, 2)))
    assert "norm-over-position" not in found(record(frozen(model)))


def test_repeated_computation() -> None:
    twice = Small(body=lambda self, x: self.fc(self.bn(self.conv(x) + self.conv(x)).mean((2, 3))))
    assert "1 product computed before" in found(record(frozen(twice)))["repeated-computation"][0].message
    assert "repeated-computation" not in found(record(frozen(Small())))


def test_result_that_is_never_used() -> None:
    def forward(self: Small, x: Tensor) -> Tensor:
        maps = self.bn(self.conv(x))
        self.conv(maps[:, :3])
        return self.fc(maps.mean((2, 3)))

    finding = found(record(frozen(Small(body=forward))))["unused-result"][0]
    assert finding.module_path == "conv"
    assert finding.severity == "warning"


def test_wrapper_prefix() -> None:
    wrapped = nn.DataParallel(Small())
    structure = capture(frozen(wrapped), (IMAGE,), name="model")
    assert "its own paths begin with 'module.'" in found(structure)["wrapper-prefix"][0].message


def test_the_same_softmax_over_the_batch_in_several_blocks_is_one_finding() -> None:
    class Block(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.softmax(0)

    def twice(self: Small, x: Tensor) -> Tensor:
        return self.second(self.first(self.fc(self.bn(self.conv(x)).mean((2, 3)))))

    model = Small(body=twice)
    model.first, model.second = Block(), Block()
    (finding,) = found(record(frozen(model)))["softmax-over-batch"]
    assert finding.message.startswith("first (")
    assert " and 1 other call: softmax over the batch of [batch, " in finding.message
