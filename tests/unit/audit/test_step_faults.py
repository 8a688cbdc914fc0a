"""Mistakes in a training step that run without an error, and recipes that look like them and are none."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.analysis.audit import Finding
from tb_plugin_structure.capture import observe

from .step_faults import (
    FAULTS,
    IMAGES,
    LABELS,
    Loss,
    Net,
    Pass,
    Quantised,
    audited,
    batches,
    cosine,
    findings,
    kd,
    labelled,
    loop,
    norm,
    rules,
    seen,
    sound,
    wide,
    zeroing,
)


@pytest.mark.parametrize("rule_id", FAULTS)
def test_fires_in_a_step_with_the_fault(rule_id: str) -> None:
    assert rule_id in FAULTS[rule_id][0]()


@pytest.mark.parametrize("rule_id", FAULTS)
def test_is_silent_in_the_step_without(rule_id: str) -> None:
    assert rule_id not in FAULTS[rule_id][1]()


def test_a_student_that_learns_nothing_is_the_first_finding() -> None:
    detached = findings(lambda t, s, a: F.mse_loss(a(s[1].detach()), t[1]) + kd(t[0], s[0].detach()))
    first = next(iter(detached.values()))[0]
    assert (first.rule, first.severity) == ("student-without-gradient", "error")
    assert first.message.startswith("no gradient can reach the student: detach (")


def test_a_frozen_student_and_one_under_no_grad_are_told_apart() -> None:
    frozen = findings(sound, prepare=lambda student: student.requires_grad_(False))
    (finding,) = frozen["student-without-gradient"]
    assert finding.message == "no gradient can reach the student: none of its parameters requires one"
    (finding,) = findings(sound, under=torch.no_grad)["student-without-gradient"]
    assert "no_grad()" in finding.message


def test_one_broken_term_is_not_a_student_that_learns_nothing() -> None:
    found = findings(labelled(lambda t, s, a: F.mse_loss(a(s[1].detach()), t[1])))
    assert rules(found) == {"compared-without-gradient"}


@pytest.mark.parametrize(
    "loss",
    [
        lambda t, s, a: F.mse_loss(s[1].reshape(t[1].shape), t[1]),
        lambda t, s, a: F.mse_loss(s[1].view_as(t[1]), t[1]),
        lambda t, s, a: F.mse_loss(s[1].flatten(1), t[1].flatten(1)),
    ],
    ids=["reshape", "view_as", "both flattened"],
)
def test_a_map_reshaped_to_the_teachers_is_found(loss: Loss) -> None:
    (finding,) = findings(loss, student=wide())["feature-reshaped-in-loss"]
    assert finding.severity == "error"
    assert "[4, 8, 8, 8]" in finding.message
    assert "[4, 32, 4, 4]" in finding.message


def test_a_map_against_its_mean_is_a_mismatch() -> None:
    found = findings(labelled(lambda t, s, a: F.mse_loss(a(s[1]), t[1].mean((2, 3), keepdim=True))))
    (finding,) = found["loss-shape-mismatch"]
    assert "[4, 32, 1, 1] (teacher)" in finding.message
    assert "[4, 32, 4, 4] (student)" in finding.message


def test_normalising_along_another_dimension_is_found() -> None:
    found = findings(labelled(lambda t, s, a: F.mse_loss(norm(a(s[1])), norm(t[1], 2))))
    (finding,) = found["normalised-on-one-side"]
    assert finding.message.endswith("the teacher is normalised along dimension 2, the student along 1")


def standardised(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


HEALTHY: dict[str, Loss] = {
    "most published recipes": sound,
    "hard labels of the teacher": lambda t, s, a: F.cross_entropy(s[0], t[0].argmax(-1)),
    "cross entropy with soft targets": lambda t, s, a: -(t[0].softmax(-1) * s[0].log_softmax(-1)).sum(-1).mean(),
    "target as a logarithm": lambda t, s, a: F.kl_div(
        s[0].log_softmax(-1), t[0].log_softmax(-1), reduction="batchmean", log_target=True
    ),
    "Jensen-Shannon": lambda t, s, a: sum(
        F.kl_div(((t[0].softmax(-1) + s[0].softmax(-1)) / 2).log(), p.softmax(-1), reduction="batchmean")
        for p in (t[0], s[0])
    ),
    "logits themselves": labelled(lambda t, s, a: F.mse_loss(s[0], t[0])),
    "standardised logits": labelled(lambda t, s, a: 16 * kd(standardised(t[0]), standardised(s[0]))),
    "attention transfer": labelled(
        lambda t, s, a: F.mse_loss(norm(s[1].pow(2).mean(1).flatten(1)), norm(t[1].pow(2).mean(1).flatten(1)))
    ),
    "similarity preserving": labelled(
        lambda t, s, a: F.mse_loss(*(norm(x[1].flatten(1) @ x[1].flatten(1).T) for x in (s, t)))
    ),
    "cosine of adapted features": labelled(
        lambda t, s, a: 1 - F.cosine_similarity(a(s[1]).flatten(1), t[1].flatten(1)).mean()
    ),
    "channel-wise softmax": labelled(
        lambda t, s, a: (
            F.kl_div(a(s[1]).flatten(2).log_softmax(-1), t[1].flatten(2).softmax(-1), reduction="sum") / (4 * 32)
        )
    ),
    "label smoothing, temperature 1": lambda t, s, a: (
        F.cross_entropy(s[0], LABELS, label_smoothing=0.1) + kd(t[0], s[0], 1.0)
    ),
    "reverse KL": lambda t, s, a: kd(s[0], t[0], 1.0),
    "warm-up with a weight of 0": labelled(lambda t, s, a: 0.0 * F.mse_loss(a(s[1]), t[1])),
    "features normalised on both sides": labelled(lambda t, s, a: F.mse_loss(norm(a(s[1])), norm(t[1]))),
    "cosine by hand": labelled(lambda t, s, a: 2 - 2 * (norm(a(s[1])) * norm(t[1])).sum(1).mean()),
    "generalised Jensen-Shannon": lambda t, s, a: kd(t[0], s[0]) + kd(s[0], t[0]),
    "log-probabilities learnt": labelled(lambda t, s, a: F.mse_loss(s[0], t[0].log_softmax(-1))),
    "mean over classes, multiplied by their number": labelled(
        lambda t, s, a: 10 * kd(t[0], s[0], 1.0, reduction="mean")
    ),
    "a summed distance, divided by the batch": labelled(lambda t, s, a: F.mse_loss(s[0], t[0], reduction="sum") / 4),
    "a similarity subtracted": labelled(
        lambda t, s, a: -F.cosine_similarity(a(s[1]).flatten(1), t[1].flatten(1)).mean()
    ),
    "a term logged and used": labelled(lambda t, s, a: seen(F.mse_loss(a(s[1]), t[1])) + 0.12345678),
    "attention over positions": labelled(
        lambda t, s, a: F.kl_div(
            s[1].mean(1).flatten(1).log_softmax(1), t[1].mean(1).flatten(1).softmax(1), reduction="batchmean"
        )
    ),
    "correlation of classes and of examples": labelled(
        lambda t, s, a: sum(
            1 - F.cosine_similarity(x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)).mean()
            for x, y in ((s[0].softmax(-1), t[0].softmax(-1)), (s[0].softmax(-1).T, t[0].softmax(-1).T))
        )
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_published_losses_are_left_alone(name: str) -> None:
    assert rules(findings(HEALTHY[name])) <= {"no-gradient"}  # a head that the loss leaves out is said to be left out
    assert name not in ("most published recipes", "logits themselves") or not rules(findings(HEALTHY[name]))


class Sliced(Net):
    """Returns its map after the head ran, cut and scaled."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits, features = super().forward(x)
        return logits, 0.5 * features[:, :, 1:, 1:]


def test_a_feature_that_is_sliced_after_the_head_is_not_crossed() -> None:
    found = findings(lambda t, s, a: kd(t[0], s[0]) + F.mse_loss(a(s[1]), t[1][:, :, 1:, 1:]), student=Sliced(8))
    assert "crossed-hints" not in found


def test_logits_and_map_exchanged_are_crossed() -> None:
    def exchanged(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        return F.mse_loss(s[0].mean(1), t[1].mean((1, 2, 3))) + F.mse_loss(adapter(s[1]).mean((1, 2, 3)), t[0].mean(1))

    assert findings(exchanged)["crossed-hints"][0].severity == "warning"


def test_a_disagreement_that_weighs_examples_is_no_dead_term() -> None:
    def weighed(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        doubt = (s[0].softmax(-1).detach() - t[0].softmax(-1)).abs().sum(-1)
        return (F.cross_entropy(s[0], LABELS, reduction="none") * doubt).mean()

    assert not rules(findings(weighed))


def test_an_adapter_that_is_trained_alone_is_no_error() -> None:
    def adapter_only(student: nn.Module) -> None:
        student.requires_grad_(False)

    found = findings(lambda t, s, a: F.mse_loss(a(s[1]), t[1]), prepare=adapter_only, train_student=False)
    assert not rules(found, "error")


@pytest.mark.parametrize(
    "prepare",
    [
        lambda student: (student.bn_1.requires_grad_(False), student.bn_2.requires_grad_(False), no_drop(student)),
        lambda student: student.train(),
    ],
    ids=["batch norm frozen, dropout of 0", "training"],
)
def test_what_evaluation_mode_does_not_change_is_left_alone(prepare: Callable[[nn.Module], Any]) -> None:
    def set_up(student: nn.Module) -> None:
        student.eval()
        prepare(student)

    assert "student-in-eval" not in findings(sound, prepare=set_up)


def no_drop(student: nn.Module) -> None:
    student.drop.p = 0.0


def test_an_average_of_the_student_may_run_in_training_mode_and_sharpened() -> None:
    def sharpened(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        return F.kl_div((s[0] / 0.1).log_softmax(-1), (t[0] / 0.04).softmax(-1), reduction="batchmean")

    found = findings(sharpened, teacher=Net(8).requires_grad_(False))
    assert not rules(found)
    assert {"teacher-training-mode", "dropout-in-teacher", "temperature-differs"} <= set(found)
    other = findings(sharpened, teacher=Net(16).requires_grad_(False))
    assert {"teacher-training-mode", "dropout-in-teacher", "temperature-differs"} <= rules(other)


def test_a_mixture_of_probabilities_is_taken_for_probabilities() -> None:
    mixing = torch.eye(10)

    def mixed(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        return F.kl_div(s[0].log_softmax(-1), t[0].softmax(-1) @ mixing, reduction="batchmean")

    assert not rules(findings(mixed))


def test_groups_of_both_models_alike_are_no_torn_features() -> None:
    def grouped(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        return F.mse_loss(adapter(s[1]).reshape(8, 16 * 16), t[1].reshape(8, 16 * 16)) + F.mse_loss(
            adapter(s[1]).flatten(2).reshape(4 * 2, -1), t[1].flatten(2).reshape(4 * 2, -1)
        )

    assert "feature-reshaped-in-loss" not in rules(findings(labelled(grouped)))


def test_a_step_function_is_named_with_what_it_stops() -> None:
    (finding,) = findings(sound, student=Quantised(8, torch.sign))["zero-derivative"]
    assert finding.message.startswith("the gradient of 4 parameters is 0, first conv_1.weight: ")
    assert "through sign in the model (" in finding.message
    assert "detach()" in finding.fix


def test_a_step_function_in_the_loss_is_named() -> None:
    found = findings(lambda t, s, a: F.mse_loss(s[0].round(), t[0]))
    (finding,) = found["zero-derivative"]
    assert "every way to the loss leads through round (" in finding.message


class Rounded(torch.autograd.Function):
    """Rounding with the derivative of the identity."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class LoRA(Net):
    """A low-rank correction that begins at zero, so that its first factor has a gradient of zero; and a branch whose
    scale begins at zero."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.down, self.up = nn.Linear(2 * width, 2, bias=False), nn.Linear(2, 10, bias=False)
        self.branch, self.scale = nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.Parameter(torch.zeros(()))
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits, features = super().forward(x)
        features = features + self.scale * self.branch(features)
        return logits + self.up(self.down(features.mean((2, 3)))), features


@pytest.mark.parametrize(
    "student",
    [
        lambda: Quantised(8, lambda x: Rounded.apply(x)),
        lambda: Quantised(8, lambda x: x + torch.floor(x)),
        lambda: LoRA(8),
    ],
    ids=["a derivative of its own", "another way beside it", "LoRA and a zero branch"],
)
def test_gradients_that_are_zero_for_now_or_not_at_all_are_left_alone(student: Callable[[], nn.Module]) -> None:
    assert "zero-derivative" not in findings(sound, student=student())


def test_scores_that_only_a_comparison_reads_are_cut_by_it() -> None:
    class Pruned(Net):
        def __init__(self) -> None:
            super().__init__(8)
            self.scores = nn.Parameter(torch.linspace(-1, 1, 16))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            logits, features = super().forward(x)
            return logits, features * (self.scores > 0).float()[:, None, None]

    (finding,) = findings(sound, student=Pruned())["no-gradient"]
    assert finding.message.startswith("no gradient reached 1 parameter, first scores: cut by ")
    assert "straight through" in finding.fix


def both_learn(t: Pass, s: Pass) -> torch.Tensor:
    """Deep mutual learning: each from the labels, and from the other."""
    own = F.cross_entropy(t[0], LABELS) + F.cross_entropy(s[0], LABELS)
    return own + kd(t[0].detach(), s[0], 1.0) + kd(s[0].detach(), t[0], 1.0)


def test_a_teacher_that_learns_from_labels_too_is_not_blamed_for_it() -> None:
    assert rules(one_step_of_both(both_learn)) == set()
    assert rules(one_step_of_both(lambda t, s: F.cross_entropy(s[0], LABELS) + kd(t[0], s[0], 1.0))) >= {
        "teacher-in-optimizer",
        "teacher-output-with-grad",
        "teacher-training-mode",
    }


def one_step_of_both(loss: Callable[[Pass, Pass], torch.Tensor]) -> dict[str, list[Finding]]:
    """Findings of a step in which one optimizer holds both models."""
    models = {"teacher": Net(16), "student": Net(8)}
    optimizer = torch.optim.SGD([p for model in models.values() for p in model.parameters()], 0.1)
    with observe(models, optimizer=optimizer) as region:
        loss(models["teacher"](IMAGES), models["student"](IMAGES)).backward()
    return audited(region)


@pytest.mark.parametrize("when", ["first", "last"])
@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_zeroed_anywhere_are_left_alone(when: str, to_none: bool) -> None:
    found = loop(3, zeroing(when, to_none=to_none))
    assert not {"gradients-not-zeroed", "gradients-lost"} & set(found)


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_zeroed_before_the_step_are_lost(to_none: bool) -> None:
    (finding,) = loop(1, zeroing("between", to_none=to_none))["gradients-lost"]
    assert finding.message == (
        "the gradients of 10 parameters were zeroed before the optimizer stepped, first conv_1.weight"
    )


def test_gradients_of_several_batches_may_add_up() -> None:
    """A step of the optimizer every third batch, gradients zeroed after it or at the first of the next three."""
    teacher, student = Net(16).eval().requires_grad_(False), Net(8)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    with tempfile.TemporaryDirectory() as folder, StructureWriter(folder) as writer:
        for number in range(9):
            models = {"teacher": teacher, "student": student}
            with writer.record_step(models, step=number, optimizer=optimizer, attention=False) as region:
                if number % 3 == 0 and number > 3:
                    student.zero_grad()
                (kd(teacher(IMAGES)[0], student(IMAGES)[0]) / 3).backward()
                if number % 3 == 2:
                    optimizer.step()
            if number == 2:
                optimizer.zero_grad()
            assert "gradients-not-zeroed" not in audited(region)


def test_a_batch_that_is_put_back_into_order_is_left_alone() -> None:
    assert "inputs-differ" not in rules(batches(lambda x: x[[2, 0, 3, 1]], lambda y: y[[1, 3, 0, 2]]))


def test_two_views_of_a_batch_are_no_warning() -> None:
    (finding,) = batches(lambda x: x.flip(-1))["inputs-differ"]
    assert finding.severity == "info"


def test_a_term_that_is_not_added_is_named() -> None:
    def forgotten(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        kd(t[0], s[0])
        return F.cross_entropy(s[0], LABELS)

    (finding,) = findings(forgotten)["teacher-unused"]
    assert finding.message.startswith("kl_div (")
    assert finding.message.endswith(" compares the student with the teacher, and is no part of the loss")


def test_a_loss_of_the_teachers_logits_alone_is_no_loss_of_the_student() -> None:
    found = findings(lambda t, s, a: F.mse_loss(a(t[1][:, :16]), t[1]))
    assert found["student-without-gradient"][0].message.endswith("the loss is computed from nothing of it")


def test_a_further_loss_after_a_backward_pass_counts() -> None:
    teacher, student = Net(16).eval().requires_grad_(False), Net(8)
    with observe({"teacher": teacher, "student": student}) as region:
        taught, learnt = teacher(IMAGES)[0], student(IMAGES)[0]
        F.cross_entropy(learnt, LABELS).backward(retain_graph=True)
        (16 * F.kl_div(learnt.softmax(-1), taught.softmax(-1), reduction="batchmean")).backward()
        (learnt.argmax(-1) == taught.argmax(-1)).float().mean()
    found = audited(region)
    assert "kl-div-arguments" in found
    assert "teacher-unused" not in found
    assert region.outside is not None
    assert "argmax" not in region.outside.operators.column_texts("name")


def test_cross_entropy_by_hand_without_its_sign_is_found() -> None:
    def by_hand(sign: int) -> Loss:
        return lambda t, s, a: sign * (t[0].softmax(-1) * s[0].log_softmax(-1)).sum(-1).mean()

    (finding,) = findings(by_hand(1))["distance-maximised"]
    assert "the teacher's probabilities times the student's log-probabilities" in finding.message
    assert not rules(findings(by_hand(-1))) & {"distance-maximised"}


def test_negatives_may_be_pushed_away() -> None:
    def contrasted(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        return cosine((t[0], t[1].roll(1, 0)), s, adapter) - cosine(t, s, adapter)

    assert "similarity-minimised" not in findings(labelled(contrasted))


def test_new_weights_between_two_passes_make_no_repeated_computation() -> None:
    """Sharpness-aware minimisation moves the weights between two passes over one batch."""
    teacher, student = Net(16).eval().requires_grad_(False), Net(8)
    with observe({"teacher": teacher, "student": student}) as region:
        for _ in range(2):
            kd(teacher(IMAGES)[0].clone(), student(IMAGES)[0]).backward()
            with torch.no_grad():
                for parameter in student.parameters():
                    parameter.add_(0.01)
    assert not [finding for finding in audited(region).get("repeated-computation", ()) if finding.subject == "student"]


def test_a_generators_parameters_are_no_adapter() -> None:
    """Data-free distillation: what the generator makes is what both models are given."""
    teacher, student, generator = Net(16).eval().requires_grad_(False), Net(8), nn.Linear(8, 3 * 16 * 16)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    with observe({"teacher": teacher, "student": student}, optimizer=optimizer) as region:
        made = generator(torch.ones(4, 8)).reshape(4, 3, 16, 16).detach()
        (16 * kd(teacher(made)[0], student(made)[0])).backward()
    assert "adapter-not-in-optimizer" not in audited(region)


def test_two_optimizers_that_step_hold_what_they_hold() -> None:
    teacher, student, adapter = Net(16).eval().requires_grad_(False), Net(8), nn.Conv2d(16, 32, 1)
    body = [p for name, p in student.named_parameters() if not name.startswith("head")]
    optimizer = torch.optim.SGD(body, 0.1)
    others = [torch.optim.SGD(student.head.parameters(), 0.1), torch.optim.SGD(adapter.parameters(), 0.1)]
    with observe({"teacher": teacher, "student": student}, optimizer=optimizer) as region:
        with torch.no_grad():
            taught = teacher(IMAGES)
        sound(taught, student(IMAGES), adapter).backward()
        for each in (optimizer, *others):
            each.step()
    assert not rules(audited(region))


def test_every_example_with_every_other_one_is_no_exchange() -> None:
    def contrasted(t: Pass, s: Pass, adapter: nn.Module) -> torch.Tensor:
        alike = F.cosine_similarity(s[0][:, None], t[0][None], dim=-1) / 0.1
        return F.cross_entropy(alike, torch.arange(4))

    assert "dimensions-swapped" not in findings(contrasted)


def test_a_softmax_along_one_side_of_a_map_is_found() -> None:
    def along(axis: int) -> Loss:
        return labelled(
            lambda t, s, a: F.kl_div(a(s[1]).log_softmax(axis), t[1].softmax(axis), reduction="none").sum(axis).mean()
        )

    (first, _) = findings(along(-1))["softmax-over-positions"]
    assert first.message.endswith("softmax over the width alone of the student's [batch, channels, height, width]")
    assert "softmax-over-positions" not in findings(along(1))


def test_batch_norm_that_keeps_its_statistics_is_mentioned() -> None:
    (finding,) = findings(sound, prepare=lambda student: student.bn_1.eval())["batch-norm-fixed"]
    assert (finding.severity, finding.module_path) == ("info", "bn_1")
