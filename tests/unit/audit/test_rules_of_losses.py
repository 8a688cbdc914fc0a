"""What the rules about a recorded loss, its gradients and its optimizer say, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import audit
from tb_plugin_structure.capture import observe

from .faulty_models import IMAGE, Small, found, frozen, record, step, warned
from .pairing import pair_by_path


def test_a_sound_loss_gives_no_finding() -> None:
    def loss(t: Tensor, s: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(s, y) + F.kl_div((s / 2).log_softmax(1), (t / 2).softmax(1), reduction="batchmean")

    assert step(loss) == {}


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_silent_broadcast_in_the_loss() -> None:
    """[2, 1] against [2] becomes [2, 2]."""
    findings = step(lambda t, s, y: F.mse_loss(s.max(1, keepdim=True).values, t.max(1).values))
    assert "[2, 1] and [2] broadcast to [2, 2]" in findings["silent-broadcast"].message
    assert "test_rules_of_losses.py" in findings["silent-broadcast"].message
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
    assert "test_rules_of_losses.py" in message


def test_teacher_feature_reshaped_with_the_students_width() -> None:
    """Hidden states of width 6 viewed as width 4: it runs because 2 x 2 x 6 is divisible by 4."""
    teacher, student = frozen(nn.Linear(3, 6)), nn.Linear(3, 4)
    x = torch.ones(2, 2, 3)
    with observe({"teacher": teacher, "student": student}) as region:
        F.mse_loss(student(x).mean((0, 1)), teacher(x).reshape(-1, 4).mean(0)).backward()
    alignment = pair_by_path(region.structures["teacher"], region.structures["student"])
    findings = {finding.rule: finding for finding in audit(alignment, outside=region.outside).findings}
    assert "[2, 2, 6] is viewed as [6, 4]" in findings["feature-reshaped-in-loss"].message


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
