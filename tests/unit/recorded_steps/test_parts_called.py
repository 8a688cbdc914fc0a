"""Steps that call parts of a model instead of the model: features here, the head there, the loss between or after."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.compared_features import compared_features
from tb_plugin_structure.capture import observe
from tb_plugin_structure.capture.region import Region
from tb_plugin_structure.records.structure import Structure

X, LABELS = torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(1, width, 3), nn.Linear(width, 3)

    def forward_features(self, x: Tensor) -> Tensor:
        features: Tensor = self.stem(2 * x).relu()
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.forward_features(x).mean((2, 3)))
        return logits.log_softmax(-1)


def operators(structure: Structure | None) -> list[str]:
    assert structure is not None
    return structure.operators.column_texts("name")


def step(teach: Callable[[Net], Tensor], learn: Callable[[Net], Tensor]) -> Region:
    teacher, student = Net(6), Net(4)
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            taught = teach(teacher)
        (F.mse_loss(learn(student), taught) * 3).backward()
    return region


WAYS = {
    "forward": lambda model: model.forward(X),
    "features and head": lambda model: model.head(model.forward_features(X).mean((2, 3))),
    "modules": lambda model: model.head(model.stem(X).relu().mean((2, 3))),
}
RUN = {
    "forward": ["*", "conv2d", "relu", "mean", "linear", "log_softmax"],
    "features and head": ["*", "conv2d", "relu", "mean", "linear"],
    "modules": ["conv2d", "relu", "mean", "linear"],
}


@pytest.mark.parametrize("way", WAYS)
def test_the_model_has_what_runs_in_its_methods_and_between_its_parts_and_the_loss_is_outside(way: str) -> None:
    region = step(WAYS[way], WAYS[way])
    assert {role: operators(structure) for role, structure in region.structures.items()} == {
        "teacher": RUN[way],
        "student": RUN[way],
    }
    assert operators(region.outside) == ["mse_loss", "*"]
    (pair,) = compared_features(region.outside, **region.structures)  # type: ignore[arg-type]
    assert (pair.teacher[0].shape, pair.student[0].shape) == ((4, 3), (4, 3))


def test_a_student_in_parts_beside_a_teacher_that_is_called() -> None:
    region = step(lambda model: model(X), WAYS["features and head"])
    assert operators(region.structures["teacher"]) == RUN["forward"]
    assert operators(region.structures["student"]) == RUN["features and head"]
    assert operators(region.outside) == ["mse_loss", "*"]


def test_slices_of_a_sequence() -> None:
    teacher, student = (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)) for _ in range(2))
    with observe({"teacher": teacher, "student": student}) as region:
        hint = teacher[:2](X[:, 0, 0, :4]).detach()
        feature = student[:2](X[:, 0, 0, :4])
        logits = student[2:](feature)
        (F.mse_loss(feature, hint) + logits.square().mean()).backward()
    assert operators(region.structures["student"]) == ["linear", "relu", "linear"]
    assert operators(region.structures["teacher"]) == ["linear", "relu"]
    assert [name for name in operators(region.outside) if name != "[...]"] == [
        "detach", "mse_loss", "square", "mean", "+",
    ]  # fmt: skip


def test_a_loss_between_two_parts_is_no_part_of_the_model() -> None:
    teacher, student, adapter = Net(6), Net(4), nn.Conv2d(4, 6, 1)
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            hint = teacher.forward_features(X)
        feature = student.forward_features(X)
        loss = F.mse_loss(adapter(feature), hint)
        logits = student.head(feature.mean((2, 3)))
        (loss + F.cross_entropy(logits, LABELS)).backward()
    assert operators(region.structures["student"]) == ["*", "conv2d", "relu", "mean", "linear"]
    assert operators(region.outside) == ["conv2d", "mse_loss", "cross_entropy_loss", "+"]
    (pair,) = compared_features(region.outside, **region.structures)  # type: ignore[arg-type]
    assert pair.operator == "mse_loss"


def test_a_pass_after_a_backward_pass_is_a_call_of_its_own() -> None:
    model = Net(4)
    with observe({"model": model}) as region:
        for _ in range(2):
            F.nll_loss(model.forward(X), LABELS).backward()
    calls = region.structures["model"].module_calls
    assert calls["parent"].tolist().count(-1) == 2
    # What reads nothing of the step after its backward pass is not recorded: the second "*".
    assert operators(region.structures["model"]) == RUN["forward"] + RUN["forward"][1:]


def test_a_loss_that_raises_is_no_failure_of_the_model() -> None:
    model = Net(4)
    region = observe({"teacher": Net(6), "model": model})
    with pytest.raises(RuntimeError), region:
        torch.mm(model.forward_features(X).flatten(1), torch.ones(2, 2))
    assert not region.structures["model"].header.HasField("error")
    assert region.outside is not None
    assert region.outside.header.error.kernel == "aten.mm.default"
