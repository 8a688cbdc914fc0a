"""``tb-structure`` says which features the loss of a recorded step compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.cli.main import main
from tests.unit.cli import toy_models


@pytest.fixture(scope="module")
def recorded_step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "kd"
    models = {"teacher": toy_models.teacher(), "student": toy_models.student()}
    x = torch.randn(2, 3, 16, 16)
    with StructureWriter(path) as writer, writer.record_step(models, step=3):
        with torch.no_grad():
            target = models["teacher"](x).softmax(-1)
        F.kl_div(models["student"](x).log_softmax(-1), target, reduction="batchmean").backward()
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_show_lists_them_below_the_records(recorded_step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "show", str(recorded_step), "--format", "md")
    assert "Compared by the loss of the run" in out
    (row,) = [line for line in out.splitlines() if line.startswith("| kl_div ")]
    assert row.count("head [2, 10]") == 2
    assert "2×10" in row


def test_every_report_of_the_audit_holds_them(recorded_step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "compared by the loss" in printed(capsys, "audit", str(recorded_step))
    assert "## Compared by the loss" in printed(capsys, "audit", str(recorded_step), "--format", "md")
    (pair,) = json.loads(printed(capsys, "audit", str(recorded_step), "--format", "json"))["compared"]
    assert pair["operator"] == "kl_div"
    assert [pair[side]["features"][0]["path"] for side in ("teacher", "student")] == ["head", "head"]


def test_the_listing_as_json_stays_one_list(recorded_step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = json.loads(printed(capsys, "show", str(recorded_step), "--format", "json"))
    assert {record["record"] for record in records} == {"structure/teacher", "structure/student", "outside/step"}
