"""Every built-in rule fires on a model that has the fault, and is silent on the same model without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import Finding, registered_rules
from tb_plugin_structure.capture import CaptureFailed, capture, observe
from tb_plugin_structure.records.structure import Structure

from .faulty_models import IMAGE, Language, Small, found, frozen, record, step
from .step_faults import FAULTS

Scenario = Callable[[], dict[str, Any]]

IDS = torch.zeros(2, 4, dtype=torch.long)


def body(forward: Callable[[Any, Tensor], Any], **modules: nn.Module) -> dict[str, list[Finding]]:
    """Findings of a teacher with this forward pass beside a sound student."""
    return found(record(frozen(with_modules(Small(body=forward), **modules))))


def with_modules(model: nn.Module, **modules: nn.Module) -> nn.Module:
    for name, module in modules.items():
        setattr(model, name, module)
    return model


def plain(self: Any, x: Tensor) -> Tensor:
    return self.fc(self.bn(self.conv(x)).mean((2, 3)))


def features(self: Any, x: Tensor) -> Tensor:
    return self.bn(self.conv(x))


def languages(teacher: int, student: int) -> dict[str, list[Finding]]:
    return found(*(record(frozen(Language(size)), IDS) for size in (teacher, student)))


def in_bfloat16(forward: Callable[[Any, Tensor], Any]) -> dict[str, list[Finding]]:
    block = with_modules(Small(body=forward)).bfloat16()
    outer = nn.Sequential(block, nn.Identity())
    model = frozen(outer).to(torch.bfloat16)
    return found(
        capture(model, (IMAGE.bfloat16(),), name="teacher"), capture(model, (IMAGE.bfloat16(),), name="student")
    )


def on_two_devices(hop: bool) -> Structure:
    """A record in which a copy, `double`'s, is one to a GPU: this machine need not have one."""
    structure = record(frozen(Small(body=lambda self, x: plain(self, x.double().float()))))
    if hop:
        copy = structure.kernels.column_texts("name").index("aten._to_copy.default")
        devices = structure.tensors.column_texts("device")
        devices[int(structure.kernels.values("outputs", copy)[0])] = "cuda:0"
        structure.set_columns("tensors", {"device": devices})
    return structure


def resized(pooled: bool) -> dict[str, list[Finding]]:
    """A teacher that always gives 8x8, a student that gives what it takes; the recorded images are 8x8."""
    teacher = nn.Sequential(nn.Conv2d(3, 8, 1), nn.AdaptiveAvgPool2d(8) if pooled else nn.Identity())
    student = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Identity())
    models = (("teacher", teacher), ("student", student))
    return found(*(capture(frozen(model), (IMAGE,), name=name, symbolic=True) for name, model in models))


def one_value() -> dict[str, list[Finding]]:
    with pytest.raises(CaptureFailed) as failure:
        capture(normalising(), (torch.ones(1, 4),), name="student")
    return found(record(frozen(Small())), failure.value.structure)


def normalising() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))


def sequence(batch_first: bool) -> dict[str, list[Finding]]:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.fc(self.layer(features(self, x).flatten(2).transpose(1, 2)).mean(1))

    return body(forward, layer=layer)


def sound_loss(t: Tensor, s: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(s, t)


def reshaped(shape: tuple[int, ...]) -> dict[str, Any]:
    teacher, student = frozen(nn.Linear(3, 6)), nn.Linear(3, 6)
    x = torch.ones(2, 2, 3)
    with observe({"teacher": teacher, "student": student}) as region:
        F.mse_loss(student(x).reshape(shape), teacher(x).reshape(shape)).backward()
    return found(region.structures["teacher"], region.structures["student"], outside=region.outside)


def cut_student(cut: bool) -> dict[str, Any]:
    def forward(self: Any, x: Tensor) -> Tensor:
        pooled = features(self, x).mean((2, 3))
        return self.fc(pooled.detach() if cut else pooled)

    teacher, student = frozen(Small()), Small(body=forward).eval()
    with observe({"teacher": teacher, "student": student}) as region:
        F.mse_loss(student(IMAGE), teacher(IMAGE)).backward()
    return found(region.structures["teacher"], region.structures["student"], measurements=region.measurements)


CASES: dict[str, tuple[Scenario, Scenario]] = {
    "batch-folded": (
        lambda: body(lambda self, x: features(self, x).permute(0, 2, 3, 1).flatten(0, 2)),
        lambda: body(features),
    ),
    "batch-lost": (lambda: body(lambda self, x: plain(self, x).mean(0)), lambda: body(plain)),
    "batchnorm-single-value": (
        one_value,
        lambda: found(record(frozen(Small())), capture(normalising(), (torch.ones(2, 4),), name="student")),
    ),
    "capacity-gap": (
        lambda: found(record(frozen(Small(width=400)))),
        lambda: found(record(frozen(Small(width=64)))),
    ),
    "classes-differ": (lambda: body(plain, fc=nn.Linear(8, 7)), lambda: body(plain)),
    "dead-module": (lambda: body(plain, extra=nn.Linear(2, 2)), lambda: found(record(frozen(Small())))),
    "device-hop": (lambda: found(on_two_devices(hop=True)), lambda: found(on_two_devices(hop=False))),
    "dimensions-swapped": (lambda: sequence(batch_first=False), lambda: sequence(batch_first=True)),
    "dropout-in-teacher": (
        lambda: found(record(Small().train())),
        lambda: found(record(frozen(Small())), record(Small().train())),
    ),
    "equal-at-this-size": (lambda: resized(pooled=True), lambda: resized(pooled=False)),
    "half-precision-cast": (
        lambda: body(lambda self, x: self.fc(features(self, x).half().float().mean((2, 3)))),
        lambda: body(plain),
    ),
    "hook-never-fires": (
        lambda: found(record(frozen(Small())), hooks=[("module.conv", "conv")]),
        lambda: found(record(frozen(Small())), hooks=[("conv", "conv"), ("", "")]),
    ),
    "modified-after-return": (
        lambda: body(lambda self, x: self.fc(features(self, x).relu_().mean((2, 3)))),
        lambda: body(lambda self, x: self.fc(features(self, x).relu().mean((2, 3)))),
    ),
    "norm-over-position": (
        lambda: body(lambda self, x: self.fc(self.norm(features(self, x)).mean((2, 3))), norm=nn.LayerNorm(8)),
        lambda: body(
            lambda self, x: self.fc(self.norm(features(self, x).permute(0, 2, 3, 1)).mean((1, 2))), norm=nn.LayerNorm(8)
        ),
    ),
    "padded-vocabulary": (lambda: languages(1280, 1270), lambda: languages(1280, 1280)),
    "vocabularies-differ": (lambda: languages(1000, 700), lambda: languages(700, 700)),
    "pair-dtype": (
        lambda: found(capture(frozen(Small()).bfloat16(), (IMAGE.bfloat16(),), name="teacher")),
        lambda: found(record(frozen(Small()))),
    ),
    "promotion-of-half": (
        lambda: in_bfloat16(lambda self, x: features(self, x) * torch.ones(8, 8)),
        lambda: in_bfloat16(lambda self, x: features(self, x) * torch.ones(8, 8, dtype=x.dtype)),
    ),
    "promotion-to-float64": (
        lambda: body(
            lambda self, x: self.fc((features(self, x) * torch.ones(8, dtype=torch.float64)).float().mean((2, 3)))
        ),
        lambda: body(lambda self, x: self.fc((features(self, x) * torch.ones(8)).mean((2, 3)))),
    ),
    "repeated-computation": (
        lambda: body(lambda self, x: self.fc(self.bn(self.conv(x) + self.conv(x)).mean((2, 3)))),
        lambda: body(lambda self, x: self.fc(self.bn(self.conv(x) + self.conv(x + 1)).mean((2, 3)))),
    ),
    "size-one-dimension": (
        lambda: body(lambda self, x: self.fc(features(self, x).mean((2, 3), keepdim=True).squeeze())),
        lambda: body(lambda self, x: self.fc(features(self, x).mean((2, 3), keepdim=True).squeeze((2, 3)))),
    ),
    "softmax-over-batch": (
        lambda: body(lambda self, x: plain(self, x).softmax(0)),
        lambda: body(lambda self, x: plain(self, x).softmax(1)),
    ),
    "teacher-trainable": (lambda: found(record(Small().eval())), lambda: found(record(frozen(Small())))),
    "teacher-training-mode": (lambda: found(record(Small().train())), lambda: found(record(Small().eval()))),
    "tied-weights": (
        lambda: body(lambda self, x: self.twin(plain(self, x)), **tied(tie=True)),
        lambda: body(lambda self, x: self.twin(plain(self, x)), **tied(tie=False)),
    ),
    "unused-parameter": (
        lambda: found(record(with_parameter(Small()))),
        lambda: found(record(Small().eval()), record(Small().eval())),
    ),
    "unused-result": (
        lambda: body(lambda self, x: (self.conv(features(self, x)[:, :3]), plain(self, x))[1]),
        lambda: body(lambda self, x: plain(self, x) + self.conv(features(self, x)[:, :3]).mean()),
    ),
    "view-by-accident": (
        lambda: body(lambda self, x: self.fc(features(self, x).view(2, 64, 8).mean(1))),
        lambda: body(lambda self, x: self.fc(features(self, x).flatten(2).transpose(1, 2).mean(1))),
    ),
    "wrapper-prefix": (
        lambda: found(record(frozen(nn.DataParallel(Small())))),
        lambda: found(record(frozen(Small()))),
    ),
    # What needs a recorded step.
    "silent-broadcast": (
        lambda: step(lambda t, s, y: (s.amax(1, keepdim=True) - t.amax(1)).pow(2).mean()),
        lambda: step(lambda t, s, y: (s.amax(1) - t.amax(1)).pow(2).mean()),
    ),
    "loss-shape-mismatch": (lambda: step(lambda t, s, y: (s - t[:, :1]).pow(2).mean()), lambda: step(sound_loss)),
    "compared-without-gradient": (
        lambda: step(
            lambda t, s, y: F.cross_entropy(s, y) + F.mse_loss(s.detach() * torch.ones(5, requires_grad=True), t)
        ),
        lambda: step(lambda t, s, y: F.cross_entropy(s, y) + F.mse_loss(s * torch.ones(5, requires_grad=True), t)),
    ),
    "feature-reshaped-in-loss": (lambda: reshaped((-1, 4)), lambda: reshaped((-1, 6))),
    "step-failed": (lambda: step(sizes_that_clash), lambda: step(sound_loss)),
    "teacher-output-with-grad": (lambda: step(sound_loss, detach=False), lambda: step(sound_loss)),
    "teacher-receives-gradient": (lambda: step(sound_loss, detach=False), lambda: step(sound_loss)),
    "teacher-in-optimizer": (
        lambda: step(sound_loss, also_trained=lambda teacher: teacher.parameters()),
        lambda: step(sound_loss),
    ),
    "adapter-not-in-optimizer": (lambda: adapted(trained=False), lambda: adapted(trained=True)),
    "student-not-in-optimizer": (lambda: step(sound_loss, left_out=("fc.weight",)), lambda: step(sound_loss)),
    "no-gradient": (lambda: cut_student(cut=True), lambda: cut_student(cut=False)),
    "kl-div-arguments": (lambda: step(divergence(student=torch.softmax)), lambda: step(divergence())),
    "temperature-differs": (lambda: step(divergence(student_temperature=4.0)), lambda: step(divergence())),
    "softmax-twice": (
        lambda: step(lambda t, s, y: F.cross_entropy(s.softmax(-1), y) + F.mse_loss(s, t)),
        lambda: step(lambda t, s, y: F.cross_entropy((s.softmax(-1) + 1e-6).log(), y) + F.mse_loss(s, t)),
    ),
    "activation-on-one-side": (
        lambda: step(lambda t, s, y: F.mse_loss(s.sigmoid(), t)),
        lambda: step(lambda t, s, y: F.mse_loss(s.sigmoid(), t.sigmoid())),
    ),
    "softmax-over-positions": (lambda: next_token(dim=1), lambda: next_token(dim=-1)),
    "mask-on-one-side": (lambda: padded(told=False), lambda: padded(told=True)),
    "class-token-kept": (lambda: patches_of(slice(0, -1)), lambda: patches_of(slice(1, None))),
    "crossed-hints": (lambda: hints(backwards=True), lambda: hints(backwards=False)),
}


def divergence(student: Callable[..., Tensor] = torch.log_softmax, student_temperature: float = 2.0) -> Any:
    return lambda t, s, y: F.kl_div(
        student(s / student_temperature, -1), torch.softmax(t / 2.0, -1), reduction="batchmean"
    )


def two_models(teacher: nn.Module, student: nn.Module, loss: Callable[[Any, Any], Tensor], *inputs: Any) -> Any:
    """Findings of one step; `inputs` are keyword arguments of the teacher, and of the student where they differ."""
    with observe({"teacher": frozen(teacher), "student": student}) as region:
        loss(teacher(**inputs[0]), student(**inputs[-1])).backward()
    return found(region.structures["teacher"], region.structures["student"], outside=region.outside)


def next_token(dim: int) -> Any:
    def loss(t: Any, s: Any) -> Tensor:
        return F.kl_div(s["logits"].log_softmax(dim), t["logits"].softmax(dim), reduction="batchmean")

    return two_models(Language(11), Language(11), loss, {"ids": IDS})


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attention = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        tokens = self.embed(ids)
        return self.attention(tokens, tokens, tokens, key_padding_mask=attention_mask)[0]


def padded(told: bool) -> Any:
    batch = {"ids": IDS, "attention_mask": torch.zeros(2, 4, dtype=torch.bool)}
    return two_models(Attending(), Attending(), F.mse_loss, batch, batch if told else {"ids": IDS})


class Patches(nn.Module):
    """A class token in front of 4x4 patches."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.cls, self.norm = (
            nn.Conv2d(3, 8, 2, stride=2),
            nn.Parameter(torch.zeros(1, 1, 8)),
            nn.LayerNorm(8),
        )

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch(x).flatten(2).transpose(1, 2)
        return self.norm(torch.cat([self.cls.expand(len(x), -1, -1), patches], 1))


def patches_of(kept: slice) -> Any:
    def loss(t: Tensor, s: Tensor) -> Tensor:
        return F.mse_loss(s, t[:, kept].transpose(1, 2).reshape(2, 8, 4, 4))

    return two_models(Patches(), nn.Sequential(nn.Conv2d(3, 8, 2, stride=2)), loss, {"x": IMAGE}, {"input": IMAGE})


class Levels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(3, 3, 2, stride=2) for _ in range(3))

    def forward(self, x: Tensor) -> list[Tensor]:
        levels = [x]
        for stage in self.stages:
            levels.append(stage(levels[-1]))
        return levels[1:]


def hints(backwards: bool) -> Any:
    def loss(t: list[Tensor], s: list[Tensor]) -> Tensor:
        pairs = zip(reversed(t) if backwards else t, s, strict=True)
        return sum((F.mse_loss(F.interpolate(b, a.shape[-2:]), a) for a, b in pairs), torch.zeros(()))

    return two_models(Levels(), Levels(), loss, {"x": IMAGE})


def sizes_that_clash(t: Tensor, s: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(s, t[:, :3])


def adapted(trained: bool) -> dict[str, Any]:
    adapter = nn.Linear(5, 5)
    return step(
        lambda t, s, y: F.mse_loss(adapter(s), t) + F.cross_entropy(s, y),
        also_trained=lambda teacher: adapter.parameters() if trained else [],
    )


def tied(tie: bool) -> dict[str, nn.Module]:
    fc, twin = nn.Linear(8, 5), nn.Linear(5, 5)
    if tie:
        twin.bias = fc.bias
    return {"fc": fc, "twin": twin}


def with_parameter(model: nn.Module) -> nn.Module:
    model.extra = nn.Parameter(torch.ones(3))
    return model.eval()


def test_every_rule_has_a_case() -> None:
    assert sorted([*CASES, *FAULTS]) == sorted(registered_rules())


@pytest.mark.parametrize("rule_id", CASES)
def test_fires_on_the_fault(rule_id: str) -> None:
    assert rule_id in CASES[rule_id][0]()


@pytest.mark.parametrize("rule_id", CASES)
def test_is_silent_without_the_fault(rule_id: str) -> None:
    assert rule_id not in CASES[rule_id][1]()
