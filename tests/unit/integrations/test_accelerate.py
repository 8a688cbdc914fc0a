"""A loop of accelerate: gradients accumulated over passes, mixed precision put around each model's own forward."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from accelerate.state import AcceleratorState  # type: ignore[import-untyped]
from torch import nn

from tb_plugin_structure import StructureWriter, align, audit
from tb_plugin_structure.capture import observe
from tb_plugin_structure.integrations import StructureMonitor
from tests.support.read_summaries import records, scalars


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    AcceleratorState._reset_state(True)
    yield Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=3)
    AcceleratorState._reset_state(True)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_the_optimizer_of_accelerate_is_looked_at_when_it_really_steps(
    accelerator: Accelerator, tmp_path: Path
) -> None:
    teacher, student = small().eval().requires_grad_(False), small()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    student, prepared = accelerator.prepare(student, optimizer)
    with warnings.catch_warnings(), StructureWriter(tmp_path) as writer:
        warnings.simplefilter("error")
        monitor = StructureMonitor(
            writer, {"teacher": teacher, "student": student}, optimizer=prepared, every=1, record_every=2
        )
        for _ in range(9):
            with accelerator.accumulate(student):
                with monitor.observe():
                    values = torch.randn(8, 3)
                    loss = (student(values) - teacher(values)).square().mean()
                    accelerator.backward(loss)
                prepared.step()
                prepared.zero_grad()
            if accelerator.sync_gradients:
                monitor.step(loss)
    assert set(scalars(tmp_path)["gradient_norm/student"]) == {0, 1, 2}
    assert set(scalars(tmp_path)["update_ratio/student"]) == {0, 1, 2}
    assert records(tmp_path)["structure/student"] == [0]


def test_precision_that_accelerate_chose_is_no_cast_of_the_model(accelerator: Accelerator) -> None:
    teacher, student = small().eval().requires_grad_(False), small()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    student, prepared = accelerator.prepare(student, optimizer)
    with observe({"teacher": teacher, "student": student}, optimizer=prepared) as region:
        values = torch.randn(8, 3)
        (student(values) - teacher(values)).square().mean().backward()
    report = audit(
        align(teacher=region.structures["teacher"], student=region.structures["student"]),
        outside=region.outside,
        measurements=region.measurements,
    )
    assert "half-precision-cast" not in {finding.rule for finding in report.findings}
    assert "student-not-in-optimizer" not in {finding.rule for finding in report.findings}
