"""Faults of a training step, each beside the same step without it. The models are healthy throughout."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure import StructureWriter, align
from tb_plugin_structure.analysis.audit import Finding, audit
from tb_plugin_structure.capture import observe
from tb_plugin_structure.capture.region import Region

IMAGES, LABELS = torch.linspace(-1, 1, 4 * 3 * 16 * 16).reshape(4, 3, 16, 16), torch.tensor([0, 3, 1, 9])


class Net(nn.Module):
    """Logits [batch, 10] and the map they are read from: 2 · width channels, a quarter of the image's side."""

    def __init__(self, width: int, stride: int = 2) -> None:
        super().__init__()
        self.conv_1, self.bn_1 = nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width)
        self.conv_2, self.bn_2 = nn.Conv2d(width, 2 * width, 3, stride, 1), nn.BatchNorm2d(2 * width)
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(2 * width, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.bn_2(self.conv_2(F.relu(self.bn_1(self.conv_1(x))))))
        return self.head(self.drop(x.mean((2, 3)))), x


class Quantised(Net):
    """Rounds the image's first map."""

    def __init__(self, width: int, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__(width)
        self.step = step

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.step(F.relu(self.bn_1(self.conv_1(x))))
        x = F.relu(self.bn_2(self.conv_2(x)))
        return self.head(self.drop(x.mean((2, 3)))), x


Pass = tuple[Tensor, Tensor]
Loss = Callable[[Pass, Pass, nn.Module], Tensor]


def findings(
    loss: Loss,
    *,
    student: nn.Module | None = None,
    prepare: Callable[[nn.Module], Any] = lambda student: None,
    teacher: nn.Module | None = None,
    train_student: bool = True,
    under: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> dict[str, list[Finding]]:
    """One recorded step of a teacher and a student with an adapter between them; findings by rule."""
    torch.manual_seed(0)
    teacher, student = teacher or Net(16).eval().requires_grad_(False), student or Net(8)
    adapter = nn.Conv2d(16, 32, 1)
    prepare(student)
    optimizer = torch.optim.SGD([*(student.parameters() if train_student else ()), *adapter.parameters()], 0.1)
    region = observe({"teacher": teacher, "student": student}, optimizer=optimizer)
    with contextlib.suppress(RuntimeError), region:
        with torch.no_grad():
            taught = teacher(IMAGES)
        with under():
            learnt = student(IMAGES)
        loss(taught, learnt, adapter).backward()
    return audited(region)


def audited(region: Region) -> dict[str, list[Finding]]:
    """The findings of a recorded step, by rule."""
    report = audit(
        align(teacher=region.structures["teacher"], student=region.structures["student"]),
        outside=region.outside,
        measurements=region.measurements,
    )
    by_rule: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    return by_rule


def kd(t: Tensor, s: Tensor, temperature: float = 4.0, **options: Any) -> Tensor:
    options = {"reduction": "batchmean", **options}
    return F.kl_div(F.log_softmax(s / temperature, -1), F.softmax(t / temperature, -1), **options)


def sound(t: Pass, s: Pass, adapter: nn.Module) -> Tensor:
    """Cross entropy, softened logits and an adapted feature, as in most published recipes."""
    return F.cross_entropy(s[0], LABELS) + 16 * kd(t[0], s[0]) + F.mse_loss(adapter(s[1]), t[1])


def wide() -> nn.Module:
    """A student whose maps hold as many numbers as the teacher's, at twice the side."""
    return Net(4, stride=1)


def loop(steps: int, zero: Callable[[torch.optim.Optimizer, str], Any]) -> dict[str, list[Finding]]:
    """The last of some recorded steps of a training loop. `zero` is called "first", before each backward pass,
    "between" it and the optimizer's step, and "last"."""
    torch.manual_seed(0)
    teacher, student = Net(16).eval().requires_grad_(False), Net(8)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    region = None
    with tempfile.TemporaryDirectory() as folder, StructureWriter(folder) as writer:
        for number in range(steps):
            models = {"teacher": teacher, "student": student}
            with writer.record_step(models, step=number, optimizer=optimizer, attention=False) as region:
                with torch.no_grad():
                    taught = teacher(IMAGES)[0]
                loss = 16 * kd(taught, student(IMAGES)[0])
                zero(optimizer, "first")
                loss.backward()
                torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
                zero(optimizer, "between")
                optimizer.step()
            zero(optimizer, "last")
    assert region is not None
    return audited(region)


def zeroing(when: str, *, to_none: bool = True) -> Callable[[torch.optim.Optimizer, str], Any]:
    return lambda optimizer, now: optimizer.zero_grad(to_none) if now == when else None


def batches(order: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor] = lambda x: x) -> dict[str, Any]:
    """A step in which the teacher is given the batch in some order, and what it gives is put into another."""
    torch.manual_seed(0)
    teacher, student = Net(16).eval().requires_grad_(False), Net(8)
    with observe({"teacher": teacher, "student": student}) as region:
        with torch.no_grad():
            taught = back(teacher(order(IMAGES))[0])
        (16 * kd(taught, student(IMAGES)[0])).backward()
    return audited(region)


def attended(dropped: int) -> dict[str, list[Finding]]:
    """A step that compares attention: probabilities (0), or what dropout left of them (1)."""

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            attention = (self.query(x) @ x.transpose(1, 2)).softmax(-1)
            return attention, self.drop(attention)

    teacher, student = Attending().eval().requires_grad_(False), Attending()
    tokens = torch.linspace(-1, 1, 2 * 5 * 8).reshape(2, 5, 8)
    with observe({"teacher": teacher, "student": student}) as region:
        F.mse_loss(student(tokens)[dropped], teacher(tokens)[0]).backward()
    return audited(region)


class Half(nn.Module):
    """Logits [batch, 10] of vectors, in float16."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 10, dtype=torch.float16)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def half_step(scale: float) -> dict[str, list[Finding]]:
    """A step in float16, of a tiny loss that is multiplied by `scale`."""
    torch.manual_seed(0)
    teacher, student = Half().eval().requires_grad_(False), Half()
    vectors = torch.linspace(-1, 1, 4 * 8, dtype=torch.float16).reshape(4, 8)
    with observe({"teacher": teacher, "student": student}) as region:
        (F.mse_loss(student(vectors), teacher(vectors)) * 1e-7 * scale).backward()
    return audited(region)


def cosine(t: Pass, s: Pass, adapter: nn.Module) -> Tensor:
    return F.cosine_similarity(adapter(s[1]).flatten(1), t[1].flatten(1)).mean()


def labelled(term: Callable[[Pass, Pass, nn.Module], Any]) -> Loss:
    return lambda t, s, adapter: F.cross_entropy(s[0], LABELS) + term(t, s, adapter)


def norm(x: Tensor, axis: int = 1) -> Tensor:
    return F.normalize(x, dim=axis)


def seen(term: Tensor) -> Tensor:
    """The term, after its value was logged."""
    term.item()
    return term


class Language(nn.Module):
    """Logits [batch, tokens, vocabulary] of a causal model."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, hidden), nn.Linear(hidden, 20)
        self.block = nn.TransformerEncoderLayer(hidden, 2, 2 * hidden, 0.0, batch_first=True)

    def forward(self, ids: Tensor) -> dict[str, Any]:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        embedded = self.embedding(ids)
        features = self.block(embedded, src_mask=mask, is_causal=True)
        return {"logits": self.head(features), "hidden_states": (embedded, features)}


def language_step(loss: Callable[[dict[str, Any], dict[str, Any], Tensor], Tensor]) -> dict[str, list[Finding]]:
    """One recorded step of two language models; `loss` is given what student and teacher return and the token ids."""
    torch.manual_seed(0)
    teacher, student = Language(16).eval().requires_grad_(False), Language(16)
    ids = torch.arange(14).reshape(2, 7)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    with observe({"teacher": teacher, "student": student}, optimizer=optimizer) as region:
        with torch.no_grad():
            taught = teacher(ids)
        learnt = student(ids)
        (loss(learnt, taught, ids) + 16 * kd(taught["logits"], learnt["logits"])).backward()
    return audited(region)


FAULTS: dict[str, tuple[Callable[[], dict[str, list[Finding]]], Callable[[], dict[str, list[Finding]]]]] = {
    "student-without-gradient": (
        lambda: findings(lambda t, s, a: F.mse_loss(a(s[1].detach()), t[1])),
        lambda: findings(lambda t, s, a: F.mse_loss(a(s[1]), t[1])),
    ),
    "teacher-unused": (
        lambda: findings(labelled(lambda t, s, a: F.mse_loss(s[1], s[1].detach()))),
        lambda: findings(labelled(lambda t, s, a: F.mse_loss(a(s[1]), t[1]))),
    ),
    "nll-without-log": (
        lambda: findings(lambda t, s, a: F.nll_loss(s[0], t[0].argmax(-1))),
        lambda: findings(lambda t, s, a: F.nll_loss(F.log_softmax(s[0], -1), t[0].argmax(-1))),
    ),
    "sigmoid-twice": (
        lambda: findings(lambda t, s, a: F.binary_cross_entropy_with_logits(s[0].sigmoid(), t[0].sigmoid())),
        lambda: findings(lambda t, s, a: F.binary_cross_entropy_with_logits(s[0], t[0].sigmoid())),
    ),
    "gradient-not-finite": (
        lambda: findings(labelled(lambda t, s, a: (s[0] - s[0].detach()).norm() / 0.0 * t[0].mean())),
        lambda: findings(sound),
    ),
    "normalised-on-one-side": (
        lambda: findings(lambda t, s, a: F.mse_loss(a(s[1]), norm(t[1]))),
        lambda: findings(lambda t, s, a: F.mse_loss(norm(a(s[1])), norm(t[1]))),
    ),
    "kl-div-mean": (
        lambda: findings(lambda t, s, a: 16 * kd(t[0], s[0], reduction="mean")),
        lambda: findings(lambda t, s, a: 16 * kd(t[0], s[0], reduction="none").sum(-1).mean()),
    ),
    "kl-div-direction": (
        lambda: findings(lambda t, s, a: 16 * kd(s[0], t[0])),
        lambda: findings(lambda t, s, a: 16 * kd(t[0], s[0])),
    ),
    "temperature-unsquared": (
        lambda: findings(labelled(lambda t, s, a: 0.9 * kd(t[0], s[0]))),
        lambda: findings(labelled(lambda t, s, a: 0.9 * 4 * 4 * kd(t[0], s[0]))),
    ),
    "student-in-eval": (
        lambda: findings(sound, prepare=lambda student: student.eval()),
        lambda: findings(sound, prepare=lambda student: student.bn_1.eval()),
    ),
    "zero-derivative": (
        lambda: findings(sound, student=Quantised(8, lambda x: (4 * x).round() / 4)),
        lambda: findings(sound, student=Quantised(8, lambda x: x + ((4 * x).round() / 4 - x).detach())),
    ),
    "distance-maximised": (
        lambda: findings(labelled(lambda t, s, a: -F.mse_loss(a(s[1]), t[1]))),
        lambda: findings(labelled(lambda t, s, a: 1 - (1 - F.mse_loss(a(s[1]), t[1])))),
    ),
    "distance-summed": (
        lambda: findings(labelled(lambda t, s, a: F.mse_loss(a(s[1]), t[1], reduction="sum"))),
        lambda: findings(labelled(lambda t, s, a: F.mse_loss(a(s[1]), t[1], reduction="sum") / t[1].numel())),
    ),
    "term-as-number": (
        lambda: findings(labelled(lambda t, s, a: F.mse_loss(a(s[1]), t[1]).item())),
        lambda: findings(labelled(lambda t, s, a: seen(F.mse_loss(a(s[1]), t[1])) + 0.1)),
    ),
    "cosine-over-positions": (
        lambda: language_step(lambda s, t, ids: 1 - F.cosine_similarity(s["logits"], t["logits"]).mean()),
        lambda: language_step(lambda s, t, ids: 1 - F.cosine_similarity(s["logits"], t["logits"], dim=-1).mean()),
    ),
    "layer-against-embeddings": (
        lambda: language_step(lambda s, t, ids: F.mse_loss(s["hidden_states"][0], t["hidden_states"][1])),
        lambda: language_step(lambda s, t, ids: F.mse_loss(s["hidden_states"][1], t["hidden_states"][1])),
    ),
    "labels-not-shifted": (
        lambda: language_step(lambda s, t, ids: F.cross_entropy(s["logits"].flatten(0, 1), ids.flatten())),
        lambda: language_step(
            lambda s, t, ids: F.cross_entropy(s["logits"][:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        ),
    ),
    "gradients-not-zeroed": (
        lambda: loop(2, lambda optimizer, now: None),
        lambda: loop(2, zeroing("first", to_none=False)),
    ),
    "gradients-lost": (
        lambda: loop(1, zeroing("between")),
        lambda: loop(2, zeroing("last")),
    ),
    "batch-norm-fixed": (
        lambda: findings(sound, prepare=lambda student: student.bn_1.eval()),
        lambda: findings(sound),
    ),
    "frozen-in-optimizer": (
        lambda: findings(sound, prepare=lambda student: student.conv_1.requires_grad_(False)),
        lambda: findings(sound),
    ),
    "gradient-underflow": (
        lambda: half_step(1.0),
        lambda: half_step(2.0**23),
    ),
    "inputs-differ": (
        lambda: batches(lambda x: x[[2, 0, 3, 1]]),
        lambda: batches(lambda x: x.clone()),
    ),
    "dropout-before-comparison": (
        lambda: attended(1),
        lambda: attended(0),
    ),
    "targets-are-logits": (
        lambda: findings(labelled(lambda t, s, a: F.cross_entropy(s[0], t[0]))),
        lambda: findings(labelled(lambda t, s, a: F.cross_entropy(s[0], t[0].softmax(-1)))),
    ),
    "similarity-minimised": (
        lambda: findings(labelled(cosine)),
        lambda: findings(labelled(lambda t, s, a: 1 - cosine(t, s, a))),
    ),
    "loss-times-zero": (
        lambda: findings(labelled(lambda t, s, a: 0.0 * F.mse_loss(a(s[1]), t[1]))),
        lambda: findings(labelled(lambda t, s, a: F.mse_loss(a(s[1]), t[1]) + 0.0 * s[1].sum())),
    ),
}
"""Rule -> (a step with the fault, a step without)."""


def rules(found: dict[str, list[Finding]], *severities: str) -> set[str]:
    """Rules that found something of these severities."""
    wanted: Iterable[str] = severities or ("warning", "error")
    return {rule for rule, items in found.items() if any(item.severity in wanted for item in items)}
