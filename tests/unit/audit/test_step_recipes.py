"""Recipes that hold what looks like a fault elsewhere: all pairs, adversarial turns, losses that are models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import Finding
from tb_plugin_structure.capture import observe

from .step_faults import IMAGES, LABELS, Net, Pass, audited, findings, labelled


def pooled(made: Pass) -> Tensor:
    return made[1].mean((2, 3))


def distances(e: Tensor) -> Tensor:
    """[N, width] -> [N, N], as relational distillation computes them."""
    squares = e.pow(2).sum(1)
    return (squares.unsqueeze(1) + squares.unsqueeze(0) - 2 * e @ e.t()).clamp(min=1e-12).sqrt()


def angles(e: Tensor) -> Tensor:
    """[N, width] -> [N, N, N]"""
    between = F.normalize(e.unsqueeze(0) - e.unsqueeze(1), dim=2)
    return between @ between.transpose(1, 2)


@pytest.mark.parametrize(
    "relation",
    [distances, angles, lambda e: (e.unsqueeze(1) - e).pow(2).sum(-1), lambda e: e.sum(1, keepdim=True) * e.sum(1)],
    ids=["distances", "angles", "a value with itself", "an outer product"],
)
def test_relations_of_all_pairs_are_no_silent_broadcast(relation: Callable[[Tensor], Tensor]) -> None:
    found = findings(labelled(lambda t, s, a: F.smooth_l1_loss(relation(pooled(s)), relation(pooled(t)))))
    assert "silent-broadcast" not in found


def test_all_students_with_all_teachers_are_no_silent_broadcast() -> None:
    def contrast(t: Pass, s: Pass, a: nn.Module) -> Tensor:
        apart = (a(s[1]).mean((2, 3)).unsqueeze(1) - pooled(t).unsqueeze(0)).pow(2).sum(-1)
        return F.cross_entropy(-apart, torch.arange(len(apart)))

    assert "silent-broadcast" not in findings(labelled(contrast))


def test_a_target_given_one_dimension_too_many_is_still_found() -> None:
    found = findings(labelled(lambda t, s, a: (s[0].amax(1) - t[0].amax(1).unsqueeze(1)).pow(2).mean()))
    assert "[4] and [4, 1] broadcast to [4, 4]" in found["silent-broadcast"][0].message


def test_one_relation_of_two_that_is_detached_on_the_wrong_side_is_found() -> None:
    def relations(t: Pass, s: Pass, a: nn.Module) -> Tensor:
        dead = F.smooth_l1_loss(distances(pooled(s).detach()), distances(pooled(t)))
        return 25 * dead + 50 * F.smooth_l1_loss(angles(pooled(s)), angles(pooled(t)))

    (finding,) = findings(labelled(relations))["compared-without-gradient"]
    assert "detach" in finding.message


def test_a_distance_that_only_sets_a_margin_or_a_weight_is_left_alone() -> None:
    def with_margin(t: Pass, s: Pass, a: nn.Module) -> Tensor:
        margin = F.mse_loss(s[0].detach(), t[0])
        return F.relu(F.l1_loss(s[0], t[0]) - margin) + margin * F.mse_loss(a(s[1]), t[1])

    assert "compared-without-gradient" not in findings(labelled(with_margin))


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3 * 16 * 16)

    def forward(self, noise: Tensor) -> Tensor:
        made: Tensor = self.layer(noise).tanh().unflatten(1, (3, 16, 16))
        return made


def generators_turn(*, freeze: bool = True) -> dict[str, list[Finding]]:
    teacher, student, generator = Net(16).eval().requires_grad_(not freeze), Net(8), Generator()
    optimizer = torch.optim.Adam(generator.parameters())
    models = {"teacher": teacher, "student": student, "generator": generator}
    with observe(models, optimizer=optimizer) as region:
        images = generator(torch.randn(4, 5))
        (-F.l1_loss(student(images)[0], teacher(images)[0])).backward()
    return audited(region)


def test_the_generators_turn_of_a_data_free_distillation_is_sound() -> None:
    assert {rule for rule, found in generators_turn().items() if found[0].severity != "info"} == set()


def test_a_teacher_that_is_not_frozen_in_that_turn_is_found() -> None:
    assert "teacher-output-with-grad" in generators_turn(freeze=False)


class Contrast(nn.Module):
    """A loss with a memory bank that each pass moves on."""

    def __init__(self, *, copies: bool) -> None:
        super().__init__()
        self.copies = copies
        self.student, self.teacher = nn.Linear(16, 4), nn.Linear(32, 4)
        self.register_buffer("bank", torch.randn(6, 4))

    def forward(self, learnt: Tensor, taught: Tensor) -> Tensor:
        bank = self.get_buffer("bank")
        learnt, taught = self.student(learnt), self.teacher(taught)
        negative = learnt @ (bank.clone() if self.copies else bank).t()
        logits = torch.cat([(learnt * taught).sum(1, keepdim=True), negative], 1)
        with torch.no_grad():
            bank.copy_(torch.cat([taught, bank])[: len(bank)])
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


def contrasted(*, copies: bool) -> dict[str, list[Finding]]:
    teacher, student, loss = Net(16).eval().requires_grad_(False), Net(8), Contrast(copies=copies)
    optimizer = torch.optim.SGD([*student.parameters(), *loss.parameters()], 0.1)
    region = observe({"teacher": teacher, "student": student, "loss": loss}, optimizer=optimizer)
    with contextlib.suppress(RuntimeError), region:
        with torch.no_grad():
            taught = teacher(IMAGES)
        learnt = student(IMAGES)
        (F.cross_entropy(learnt[0], LABELS) + loss(pooled(learnt), pooled(taught))).backward()
    return audited(region)


def test_a_loss_that_is_a_recorded_model_uses_the_teacher() -> None:
    assert "teacher-unused" not in contrasted(copies=True)


def test_a_bank_written_over_before_the_backward_pass_is_told_with_its_own_fix() -> None:
    found = contrasted(copies=False)
    (finding,) = found["step-failed"]
    assert finding.message.startswith("backward (")
    assert "clone()" in finding.fix
    assert {"no-gradient", "teacher-unused"}.isdisjoint(found)


class Audio(nn.Module):
    """[N, 1, samples] -> [N, frames, width]"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.frames, self.layer = nn.Conv1d(1, width, 4, stride=4), nn.Linear(width, 6)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(self.frames(x).transpose(1, 2))
        return made


def heard(axis: int) -> dict[str, list[Finding]]:
    teacher, student, x = Audio(8).eval().requires_grad_(False), Audio(4), torch.randn(2, 1, 40)
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            taught = teacher(x)
        (1 - F.cosine_similarity(student(x), taught, dim=axis)).mean().backward()
    return audited(region)


def test_a_cosine_along_the_frames_of_a_sound_is_found() -> None:
    assert "cosine-over-positions" in heard(1)
    assert "cosine-over-positions" not in heard(-1)


class Biased(nn.Module):
    """Fused attention that is computed step by step: with a bias that learns."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.bias = nn.Embedding(9, 8), nn.Parameter(torch.zeros(4, 4))

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embedding(ids).unsqueeze(1)
        bias = self.bias if attention_mask is None else self.bias + attention_mask[:, None, None]
        return F.scaled_dot_product_attention(x, x, x, bias)


def test_a_mask_that_a_student_with_a_learnt_bias_is_not_given_is_found() -> None:
    teacher, student, ids = Biased().eval().requires_grad_(False), Biased(), torch.randint(9, (2, 4))
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            taught = teacher(ids, attention_mask=torch.zeros(2, 4))
        F.mse_loss(student(ids), taught).backward()
    assert "mask-on-one-side" in audited(region)


class Masking(nn.Module):
    """Two blocks; padding is written over the first one's result, as audio models do."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(2))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = self.blocks[0](x)
        first[:, -1:] = first[:, -1:] * torch.zeros(4)
        return self.head(self.blocks[1](first)), first


@pytest.mark.parametrize(("compared", "severity"), [(0, "info"), (1, "warning")])
def test_a_feature_that_changes_in_place_is_a_warning_where_the_loss_reads_it(compared: int, severity: str) -> None:
    teacher, student, x = Masking().eval().requires_grad_(False), Masking(), torch.randn(2, 5, 4)
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            taught = teacher(x)
        F.mse_loss(student(x)[compared], taught[compared]).backward()
    severities = {finding.severity for finding in audited(region)["modified-after-return"]}
    assert severities == {severity}
