"""A plan trains: features are recorded, adapted and compared; the teacher stays as it is."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.alignment import align
from tb_plugin_structure.analysis.audit import AuditReport, audit
from tb_plugin_structure.capture import capture
from tb_plugin_structure.distill import DistillationPlan, FeatureRecorder
from tb_plugin_structure.distill.features import Point


class Net(nn.Module):
    """Two stages; `width` channels in the first, twice as many in the second."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stage1 = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.head = nn.Linear(2 * width, 5)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.stage2(self.stage1(image)).mean((2, 3)))


IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def pair() -> tuple[Net, Net, AuditReport]:
    torch.manual_seed(0)
    teacher, student = Net(12), Net(4)
    records = [
        capture(model.eval(), (IMAGES,), name=name) for model, name in ((teacher, "teacher"), (student, "student"))
    ]
    return teacher, student, audit(align(teacher=records[0], student=records[1]))


def test_ten_lines_that_train(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    plan = DistillationPlan(report, teacher, student.train())
    optimizer = torch.optim.Adam([*student.parameters(), *plan.parameters()], 0.01)
    losses = []
    for _ in range(30):
        with plan:
            plan.run(IMAGES)
            loss = plan.feature_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())


def test_the_plan_holds_the_adapters_alone(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student)
    assert [hook.student_path for hook in plan.pairs] == ["stage1", "stage2"]
    assert {name for name, _ in plan.named_parameters()} == {
        "adapters.stage1.project.weight",
        "adapters.stage2.project.weight",
    }
    assert sum(parameter.numel() for parameter in plan.parameters()) == 4 * 12 + 8 * 24
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


def test_no_gradient_reaches_the_teacher_and_one_reaches_the_student(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student)
    with plan:
        teacher(IMAGES)  # without no_grad: the plan detaches on its own
        student(IMAGES)
        plan.feature_loss().backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert student.stage1[0].weight.grad is not None


def test_a_parents_train_does_not_reach_the_teacher(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student)
    nn.ModuleList([teacher, student]).train()
    with plan:
        plan.run(IMAGES)
    assert not teacher.training
    assert student.training


def test_hooks_are_gone_afterwards_even_when_the_pass_raises(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student)
    with pytest.raises(RuntimeError), plan:
        plan.run(torch.randn(1, 5, 8, 8))
    for model in (teacher, student):
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_wrapped_models_are_looked_through(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, nn.DataParallel(teacher), nn.DataParallel(student))
    with plan:
        plan.run(IMAGES)
        assert plan.feature_loss().ndim == 0


def test_chosen_paths_weights_and_loss(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student, paths=["stage2"], weights={"stage2": 3.0}, loss=F.l1_loss)
    with plan:
        plan.run(IMAGES)
        ((_, mine, theirs),) = plan.features()
        assert torch.allclose(plan.feature_loss(), 3 * F.l1_loss(mine, theirs))


def test_an_unknown_path_names_the_nearest(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    with pytest.raises(KeyError, match="stage1"):
        DistillationPlan(report, teacher, student, paths=["stge1"])
    with pytest.raises(KeyError, match="nearest: stage1"):
        FeatureRecorder(teacher, [Point("stge1")])


def test_features_outside_the_plan_say_what_to_do(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student)
    with plan, pytest.raises(LookupError, match="run the model inside the plan's context"):
        plan.feature_loss()


def test_another_input_size_names_both_shapes(pair: tuple[Net, Net, AuditReport]) -> None:
    """The audit saw equal maps; a student that is fed smaller images gives smaller ones."""
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student)
    with plan:
        teacher(IMAGES)
        student(IMAGES[:, :, ::2, ::2])
        with pytest.raises(ValueError, match=r"gives \(4, 12, 4, 4\) after its adapter.*gives \(4, 12, 8, 8\)"):
            plan.feature_loss()


def test_a_student_in_half_precision_trains_full_precision_adapters() -> None:
    torch.manual_seed(0)
    teacher, student = Net(12).bfloat16().eval(), Net(4).bfloat16().eval()
    images = IMAGES.bfloat16()
    report = audit(
        align(teacher=capture(teacher, (images,), name="teacher"), student=capture(student, (images,), name="student"))
    )
    plan = DistillationPlan(report, teacher, student)
    with plan:
        plan.run(images)
        plan.feature_loss().backward()
    assert {parameter.dtype for parameter in plan.parameters()} == {torch.float32}
    assert student.stage1[0].weight.grad is not None


def test_under_autocast(pair: tuple[Net, Net, AuditReport]) -> None:
    teacher, student, report = pair
    plan = DistillationPlan(report, teacher, student)
    with plan, torch.autocast("cpu", torch.bfloat16):
        plan.run(IMAGES)
        loss = plan.feature_loss()
    loss.backward()
    assert student.stage2[0].weight.grad is not None


def test_models_without_a_pair_of_features_are_refused_with_what_to_do() -> None:
    teacher, student = Net(8), nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 5))
    report = audit(align(teacher=capture(teacher, (IMAGES,)), student=capture(student, (IMAGES,))))
    with pytest.raises(ValueError, match=r"pins=\{student path: teacher path\}"):
        DistillationPlan(report, teacher, student)
