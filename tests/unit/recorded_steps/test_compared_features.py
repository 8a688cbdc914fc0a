"""Which features of teacher and student a loss compared, read from what ran between the models."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tb_plugin_structure.analysis.compared_features import ComparedFeatures, compared_features
from tb_plugin_structure.capture import observe
from tb_plugin_structure.records.structure import Structure


class Network(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        early = self.first(x).relu()
        late = self.second(early)
        return self.head(late), early, late


X = torch.randn(2, 4)
Loss = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]


def compared(loss: Loss) -> list[ComparedFeatures]:
    teacher, student = Network(8), Network(6)
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            given = teacher(X)
        loss(given, student(X)).backward()
    assert region.outside is not None
    # As it is read from a file.
    outside = Structure.decode(region.outside.encode())
    return compared_features(outside, teacher=region.structures["teacher"], student=region.structures["student"])


def pairs(found: list[ComparedFeatures]) -> list[tuple[str, list[str], list[str]]]:
    return [(each.operator, [str(t) for t in each.teacher], [str(s) for s in each.student]) for each in found]


def test_each_term_of_a_loss_names_the_features_that_it_compares_through_adapters_and_temperatures() -> None:
    adapter = nn.Linear(6, 8)

    def loss(teacher: tuple[Tensor, ...], student: tuple[Tensor, ...]) -> Tensor:
        hints = F.mse_loss(adapter(student[1]), teacher[1]) + F.l1_loss(adapter(student[2]), teacher[2].detach())
        soft = F.kl_div(F.log_softmax(student[0] / 2, -1), F.softmax(teacher[0] / 2, -1), reduction="batchmean")
        return hints + soft + F.cross_entropy(student[0], torch.tensor([0, 1]))

    found = compared(loss)
    assert pairs(found) == [
        ("mse_loss", ["relu in the model [2, 8]"], ["relu in the model [2, 6]"]),
        ("l1_loss", ["second [2, 8]"], ["second [2, 6]"]),
        ("kl_div", ["head [2, 3]"], ["head [2, 3]"]),
    ]
    assert [(each.teacher_shape, each.student_shape) for each in found] == [((2, 8), (2, 8))] * 2 + [((2, 3), (2, 3))]
    assert found[0].source.startswith("tests/unit/recorded_steps/test_compared_features.py:")


def test_features_that_were_mixed_up_are_named_as_they_were_used() -> None:
    found = compared(lambda t, s: F.mse_loss(s[2].mean(-1), t[1].mean(-1)))
    assert pairs(found) == [("mse_loss", ["relu in the model [2, 8]"], ["second [2, 6]"])]


def test_relations_within_each_model_are_compared_as_what_they_were_made_from() -> None:
    def gram(feature: Tensor) -> Tensor:
        return feature @ feature.T

    found = compared(lambda t, s: (gram(s[2]) - gram(t[2])).square().mean())
    assert pairs(found) == [("-", ["second [2, 8]"], ["second [2, 6]"])]


def test_losses_of_two_models_that_are_added_compare_nothing() -> None:
    labels = torch.tensor([0, 1])
    assert compared(lambda t, s: F.cross_entropy(s[0], labels) + F.cross_entropy(t[0], labels)) == []


def test_several_features_of_one_side_are_listed_together() -> None:
    found = compared(lambda t, s: F.mse_loss(torch.cat([s[1], s[2]], -1).mean(-1), t[2].mean(-1)))
    assert pairs(found) == [("mse_loss", ["second [2, 8]"], ["relu in the model [2, 6]", "second [2, 6]"])]


class Masked(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, width), nn.Linear(width, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.head(self.layer(x) * mask.unsqueeze(-1))
        return out


def compared_where(loss: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> list[ComparedFeatures]:
    teacher, student = Masked(8), Masked(6)
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True, True, False], [True, False, False]])
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            given = teacher(x, mask=mask)
        loss(given, student(x, mask=mask), mask, x).backward()
    assert region.outside is not None
    outside = Structure.decode(region.outside.encode())
    return compared_features(outside, teacher=region.structures["teacher"], student=region.structures["student"])


def test_a_mask_that_a_model_was_given_and_that_chooses_rows_of_both_is_no_feature() -> None:
    found = compared_where(lambda t, s, mask, x: F.mse_loss(s[mask], t[mask]))
    assert pairs(found) == [("mse_loss", ["head [2, 3, 4]"], ["head [2, 3, 4]"])]


def test_the_input_that_a_student_reconstructs_is_not_the_teachers() -> None:
    found = compared_where(lambda t, s, mask, x: F.l1_loss(s, x) + F.mse_loss(s, t))
    assert pairs(found) == [("mse_loss", ["head [2, 3, 4]"], ["head [2, 3, 4]"])]
