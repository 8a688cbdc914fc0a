"""Each rule fires on a small model that has the fault and stays silent on one that has not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import audit, registered_rules, rule
from tb_plugin_structure.analysis.audit.findings import unregister
from tb_plugin_structure.capture import CaptureFailed, capture, observe

from .faulty_models import IMAGE, Language, Small, found, frozen, record, step, warned
from .pairing import pair_by_path


def test_a_healthy_pair_gives_no_warning() -> None:
    assert warned(found(record(frozen(Small())))) == set()


def test_every_rule_explains_itself_and_says_what_to_do() -> None:
    assert len(registered_rules()) >= 25
    for registered in registered_rules().values():
        assert registered.explanation.endswith("."), registered.id
        assert registered.fix.endswith("."), registered.id


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
    assert "test_rules.py" in finding.message


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
    assert "test_rules.py" in finding.message
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


# ---- what goes wrong between the models


def test_a_sound_loss_gives_no_finding() -> None:
    def loss(t: Tensor, s: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(s, y) + F.kl_div((s / 2).log_softmax(1), (t / 2).softmax(1), reduction="batchmean")

    assert step(loss) == {}


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_silent_broadcast_in_the_loss() -> None:
    """[2, 1] against [2] becomes [2, 2]."""
    findings = step(lambda t, s, y: F.mse_loss(s.max(1, keepdim=True).values, t.max(1).values))
    assert "[2, 1] and [2] broadcast to [2, 2]" in findings["silent-broadcast"].message
    assert "test_rules.py" in findings["silent-broadcast"].message
    assert "loss-shape-mismatch" not in findings  # it is the same operator
    by_hand = step(lambda t, s, y: (s.max(1, keepdim=True).values - t.max(1).values).pow(2).mean())
    assert set(by_hand) == {"silent-broadcast"}


def test_softmax_over_the_batch_in_the_loss() -> None:
    findings = step(lambda t, s, y: F.kl_div((s / 4).log_softmax(0), (t / 4).softmax(0), reduction="batchmean"))
    assert set(findings) == {"softmax-over-batch"}
    assert "over the batch of the " in findings["softmax-over-batch"].message


def test_an_output_made_a_leaf_of_its_own_teaches_the_student_nothing() -> None:
    findings = step(lambda t, s, y: F.mse_loss(s.detach().requires_grad_(), t))
    assert "lets no gradient back" in findings["compared-without-gradient"].message


def test_broadcast_of_a_weight_is_no_finding() -> None:
    weights = torch.ones(5)
    assert step(lambda t, s, y: ((s - t) ** 2 * weights).mean()) == {}


def test_student_compared_with_part_of_the_teacher() -> None:
    findings = step(lambda t, s, y: (s - t[:, :1]).pow(2).mean())
    assert set(findings) == {"loss-shape-mismatch"}
    assert "[2, 5] (student) with [2, 1] (teacher)" in findings["loss-shape-mismatch"].message


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_that_raises_says_on_whose_features_and_what_makes_them_fit() -> None:
    class Body(nn.Sequential):
        def __init__(self, width: int) -> None:
            super().__init__(nn.Conv2d(3, width, 3), nn.ReLU())

    teacher, student = frozen(Body(12)), Body(4)
    region = observe({"teacher": teacher, "student": student})
    with pytest.raises(RuntimeError, match="must match"), region:
        F.mse_loss(student(IMAGE), teacher(IMAGE)).backward()
    assert region.outside is not None
    error = region.outside.header.error
    assert (error.type, error.kernel) == ("RuntimeError", "mse_loss")
    assert list(error.operands) == ["student/1 float32[2, 4, 6, 6] cpu", "teacher/1 float32[2, 12, 6, 6] cpu"]
    pair = pair_by_path(region.structures["teacher"], region.structures["student"])
    finding = next(f for f in audit(pair, outside=region.outside).findings if f.rule == "step-failed")
    assert finding.severity == "error"
    assert finding.message.endswith("; Conv1x1(4->12) makes the student's fit")

    by_operator = observe({"teacher": teacher, "student": student})
    with pytest.raises(RuntimeError, match="must match"), by_operator:
        (student(IMAGE) - teacher(IMAGE)).pow(2).mean()
    assert by_operator.outside is not None
    error = by_operator.outside.header.error
    assert error.kernel == "aten.sub.Tensor"
    assert list(error.operands) == ["student/1 float32[2, 4, 6, 6] cpu", "teacher/1 float32[2, 12, 6, 6] cpu"]


def test_an_error_inside_a_model_is_that_model_s() -> None:
    teacher, student = frozen(Small()), Small(body=lambda self, x: self.fc(x[..., :3]))
    region = observe({"teacher": teacher, "student": student})
    with pytest.raises(RuntimeError), region:
        F.mse_loss(teacher(IMAGE), student(IMAGE))
    assert region.structures["student"].header.error.module_path == "fc"
    assert region.outside is None or not region.outside.header.HasField("error")


def test_a_term_that_is_cut_off_from_the_student_names_the_operator_that_cuts() -> None:
    adapter = nn.Linear(5, 5).requires_grad_(False)
    weight = torch.ones((), requires_grad=True)
    findings = step(lambda t, s, y: weight * F.mse_loss(adapter(s.detach()), t) + F.mse_loss(s.sum(1), y.float()))
    assert set(findings) == {"compared-without-gradient"}
    message = findings["compared-without-gradient"].message
    assert message.startswith("mse_loss (")
    assert "compares fc with the teacher's, but detach (" in message
    by_index = step(lambda t, s, y: F.mse_loss(s.argmax(1).float(), t.argmax(1).float()) + F.cross_entropy(s, y))
    assert "argmax (" in by_index["compared-without-gradient"].message


def test_metrics_and_weights_without_gradient_are_no_finding() -> None:
    def agreeing(t: Tensor, s: Tensor, y: Tensor) -> Tensor:
        (s.argmax(1) == t.argmax(1)).float().mean()  # how often both say the same: to be logged
        return F.cross_entropy(s, y)

    def weighted(t: Tensor, s: Tensor, y: Tensor) -> Tensor:
        return ((s.detach() - t).abs() * (s - t) ** 2).mean()

    assert step(agreeing) == {}
    assert step(weighted) == {}


def test_teacher_that_is_not_detached() -> None:
    findings = step(lambda t, s, y: F.mse_loss(s, t), detach=False)
    assert set(findings) == {"teacher-trainable", "teacher-output-with-grad", "teacher-receives-gradient"}


def test_teacher_in_the_optimizer() -> None:
    findings = step(lambda t, s, y: F.mse_loss(s, t), also_trained=lambda teacher: teacher.parameters())
    assert findings["teacher-in-optimizer"].severity == "error"


def test_no_gradient_reaches_behind_a_detach() -> None:
    def loss(t: Tensor, s: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(s, t)

    def cut(self: Small, x: Tensor) -> Tensor:
        return self.fc(self.bn(self.conv(x)).mean((2, 3)).detach())

    teacher, student = frozen(Small()), Small(body=cut).eval()
    with observe({"teacher": teacher, "student": student}) as region:
        loss(teacher(IMAGE), student(IMAGE), torch.tensor([0, 1])).backward()
    alignment = pair_by_path(region.structures["teacher"], region.structures["student"])
    findings = {f.rule: f for f in audit(alignment, measurements=region.measurements).findings}
    message = findings["no-gradient"].message
    assert message.startswith("no gradient reached 4 parameters, first conv.weight: cut by detach in the model (")
    assert "test_rules.py" in message


def test_teacher_feature_reshaped_with_the_students_width() -> None:
    """Hidden states of width 6 viewed as width 4: it runs because 2 x 2 x 6 is divisible by 4."""
    teacher, student = frozen(nn.Linear(3, 6)), nn.Linear(3, 4)
    x = torch.ones(2, 2, 3)
    with observe({"teacher": teacher, "student": student}) as region:
        F.mse_loss(student(x).mean((0, 1)), teacher(x).reshape(-1, 4).mean(0)).backward()
    alignment = pair_by_path(region.structures["teacher"], region.structures["student"])
    findings = {finding.rule: finding for finding in audit(alignment, outside=region.outside).findings}
    assert "[2, 2, 6] is viewed as [6, 4]" in findings["feature-reshaped-in-loss"].message


# ---- registering and silencing


def test_a_users_rule_is_run_and_can_be_silenced_by_path() -> None:
    @rule("wide", severity="error", explanation="Too wide.", fix="Make it narrow.")
    def wide(context: Any) -> Any:
        yield context.student.found("conv is wide", "conv")

    try:
        teacher = record(frozen(Small()))
        finding = found(teacher)["wide"][0]
        assert (finding.severity, finding.explanation, finding.fix) == ("error", "Too wide.", "Make it narrow.")
        assert "wide" not in found(teacher, silence=["wide:con*"])
        assert "wide" in found(teacher, silence=["wide:fc"])
        assert found(teacher, severities={"wide": "info"})["wide"][0].severity == "info"
    finally:
        unregister("wide")


def test_a_rule_that_fails_does_not_hide_the_others() -> None:
    @rule("broken", severity="info", explanation="It fails.", fix="Nothing.")
    def broken(context: Any) -> Any:
        raise RuntimeError("no")

    try:
        findings = found(record(Small().train()))
        assert "RuntimeError: no" in findings["broken"][0].message
        assert "teacher-training-mode" in findings
    finally:
        unregister("broken")


def test_silencing_a_rule_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule 'ded-module'"):
        found(record(frozen(Small())), silence=["ded-module"])


def test_no_gradient_of_a_branch_that_nothing_uses() -> None:
    """Its last result is never read: no operator cuts it, and no no_grad() stands around it."""

    def forward(self: Small, x: Tensor) -> Tensor:
        features = self.bn(self.conv(x))
        F.interpolate(self.aux(features), scale_factor=2)
        return self.fc(features.mean((2, 3)))

    student = Small(body=forward).eval()
    student.aux = nn.Conv2d(8, 5, 1)
    with observe({"teacher": frozen(Small()), "student": student}) as region:
        student(IMAGE).sum().backward()
    alignment = pair_by_path(record(frozen(Small())), region.structures["student"])
    findings = {f.rule: f for f in audit(alignment, measurements=region.measurements).findings}
    assert findings["no-gradient"].message == (
        "no gradient reached 2 parameters, first aux.weight: what is computed from it reaches no loss"
    )


def test_no_gradient_of_a_router_whose_choice_alone_is_used() -> None:
    def forward(self: Small, x: Tensor) -> Tensor:
        pooled = self.bn(self.conv(x)).mean((2, 3))
        _, chosen = self.router(pooled).softmax(-1).topk(1)
        return self.fc(pooled * chosen)

    student = Small(body=forward).eval()
    student.router = nn.Linear(8, 4)
    with observe({"teacher": frozen(Small()), "student": student}) as region:
        student(IMAGE).sum().backward()
    alignment = pair_by_path(record(frozen(Small())), region.structures["student"])
    findings = {f.rule: f for f in audit(alignment, measurements=region.measurements).findings}
    assert "first router.weight: cut by topk, of which only int64 is used, in the model (" in (
        findings["no-gradient"].message
    )


def test_a_hook_that_detaches_the_students_feature() -> None:
    """The adapter behind it still learns, so that the loss falls: the student learns nothing from this term."""
    teacher, student, adapter = frozen(Small()), Small(width=4).eval(), nn.Conv2d(4, 8, 1)
    kept: dict[str, Tensor] = {}
    for name, model in (("teacher", teacher), ("student", student)):
        model.conv.register_forward_hook(lambda module, inputs, output, name=name: kept.update({name: output.detach()}))
    with observe({"teacher": teacher, "student": student}) as region:
        teacher(IMAGE)
        loss = student(IMAGE).sum() + F.mse_loss(adapter(kept["student"]), kept["teacher"])
        loss.backward()
    alignment = pair_by_path(region.structures["teacher"], region.structures["student"])
    report = audit(alignment, outside=region.outside, measurements=region.measurements)
    finding = next(f for f in report.findings if f.rule == "compared-without-gradient")
    assert " compares conv with the teacher's, but detach (" in finding.message
    assert finding.message.endswith(") took its gradient away")
    assert finding.module_path == "conv"


def test_transposed_maps_that_the_loss_compares() -> None:
    """8 x 8 is square: the transposition is not seen in any shape."""
    teacher, student = frozen(Small()), Small().eval()
    kept: dict[str, Tensor] = {}
    for name, model in (("teacher", teacher), ("student", student)):
        model.conv.register_forward_hook(lambda module, inputs, output, name=name: kept.update({name: output}))

    def compared(change: Any) -> list[str]:
        with observe({"teacher": teacher, "student": student}) as region:
            teacher(IMAGE)
            (student(IMAGE).sum() + F.mse_loss(change(kept["student"]), kept["teacher"])).backward()
        return [
            finding.message
            for finding in found(
                region.structures["teacher"], region.structures["student"], outside=region.outside
            ).get("dimensions-swapped", [])
        ]

    (message,) = compared(lambda maps: maps.transpose(2, 3))
    assert message.startswith("mse_loss (")
    assert message.endswith(
        "compares the teacher's [batch 2, channels 8, height 8, width 8] with the student's "
        "[batch 2, channels 8, width 8, height 8]: equal shapes, other dimensions"
    )
    assert compared(lambda maps: maps.flip(3)) == []


def test_softmax_over_the_batch_of_a_flattened_map() -> None:
    """As channel-wise distillation flattens maps before its softmax, which belongs over the positions."""
    teacher, student = frozen(nn.Conv2d(3, 5, 1)), nn.Conv2d(3, 5, 1)

    def rules(dim: int) -> set[str]:
        with observe({"teacher": teacher, "student": student}) as region:
            s, t = student(IMAGE).flatten(2), teacher(IMAGE).flatten(2)
            F.kl_div(s.log_softmax(dim), t.softmax(dim), reduction="sum").backward()
        return warned(found(region.structures["teacher"], region.structures["student"], outside=region.outside))

    assert rules(dim=0) == {"softmax-over-batch"}
    assert rules(dim=2) == set()


def test_each_level_learning_from_all_levels_is_not_crossed() -> None:
    teacher, student = (nn.Sequential(nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)) for _ in range(2))
    frozen(teacher)
    with observe({"teacher": teacher, "student": student}) as region:
        levels = [[model[0](IMAGE)] for model in (teacher, student)]
        for own, model in zip(levels, (teacher, student), strict=True):
            own.append(model(IMAGE))
        sum(F.mse_loss(s, t) for s in levels[1] for t in levels[0]).backward()
    findings = found(region.structures["teacher"], region.structures["student"], outside=region.outside)
    assert "crossed-hints" not in findings


def test_a_logarithm_as_target_of_kl_div_needs_log_target() -> None:
    def loss(log_target: bool) -> Any:
        return lambda t, s, y: F.kl_div(
            s.log_softmax(-1), t.log_softmax(-1), reduction="batchmean", log_target=log_target
        )

    assert step(loss(log_target=True)) == {}
    message = step(loss(log_target=False))["kl-div-arguments"].message
    assert message.endswith(": its target is logarithms of probabilities, probabilities are expected")


def test_logits_given_to_kl_div() -> None:
    message = step(lambda t, s, y: F.kl_div(s, t.softmax(-1), reduction="batchmean"))["kl-div-arguments"].message
    assert message.endswith(": its input is logits, logarithms of probabilities are expected")


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
