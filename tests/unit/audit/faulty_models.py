"""A small model that can be given a fault, and what the audit finds in a pair or in a recorded step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tb_plugin_structure.analysis.audit import Finding, audit
from tb_plugin_structure.capture import capture, observe
from tb_plugin_structure.records.structure import Structure

from .pairing import pair_by_path


class Small(nn.Module):
    """A convolution, batch norm, dropout and a head; `body` may replace the forward pass."""

    def __init__(self, width: int = 8, body: Callable[[Small, Tensor], Any] | None = None) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width)
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(width, 5)
        self.body = body

    def forward(self, x: Tensor) -> Any:
        if self.body is not None:
            return self.body(self, x)
        return self.fc(self.drop(F.relu(self.bn(self.conv(x))).mean((2, 3))))


IMAGE = torch.ones(2, 3, 8, 8)


def frozen(model: nn.Module) -> nn.Module:
    return model.eval().requires_grad_(False)


def record(model: nn.Module, inputs: Any = IMAGE) -> Structure:
    return capture(model, (inputs,), name="model")


def found(teacher: Structure, student: Structure | None = None, **options: Any) -> dict[str, list[Finding]]:
    by_rule: dict[str, list[Finding]] = {}
    for finding in audit(pair_by_path(teacher, student or record(frozen(Small()))), **options).findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    return by_rule


def warned(findings: Mapping[str, list[Finding]]) -> set[str]:
    return {name for name, items in findings.items() if any(item.severity != "info" for item in items)}


class Language(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embed, self.lm_head = nn.Embedding(vocabulary, 8), nn.Linear(8, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        return {"logits": self.lm_head(self.embed(ids))}


def step(loss: Callable[[Tensor, Tensor, Tensor], Tensor], *, detach: bool = True, **options: Any) -> dict[str, Any]:
    """One recorded step of a teacher and a student under a loss of (teacher output, student output, targets)."""
    torch.manual_seed(0)
    teacher, student = frozen(Small()), Small()
    if not detach:
        teacher.requires_grad_(True)
    left_out = options.get("left_out", ())
    trained = [parameter for name, parameter in student.named_parameters() if name not in left_out]
    optimizer = torch.optim.SGD([*trained, *options.get("also_trained", lambda t: [])(teacher)], 0.1)
    region = observe({"teacher": teacher, "student": student}, optimizer=optimizer)
    with contextlib.suppress(RuntimeError), region:  # a loss that cannot be computed is recorded as well
        loss(teacher(IMAGE), student(IMAGE), torch.tensor([0, 1])).backward()
    report = audit(
        pair_by_path(region.structures["teacher"], region.structures["student"]),
        outside=region.outside,
        measurements=region.measurements,
    )
    return {finding.rule: finding for finding in report.findings if finding.severity != "info"}
