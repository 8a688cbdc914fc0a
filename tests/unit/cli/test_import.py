"""``tb-structure import``: what a file is, its contents tell."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tb_plugin_structure.cli.event_files import EventFiles
from tb_plugin_structure.cli.main import main
from tests.unit.importers.checks import calls
from tests.unit.importers.networks import CALLS, net

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_files_of_each_kind_are_written_into_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    torch.export.save(torch.export.export(net(), (torch.zeros(2, 3, 8, 8),)), tmp_path / "teacher.pt2")
    torch.jit.save(torch.jit.script(net()), tmp_path / "scripted.pt")
    assert main(["import", str(tmp_path / "teacher.pt2"), "--logdir", str(run)]) == 0
    assert main(["import", str(tmp_path / "scripted.pt"), "--logdir", str(run), "--name", "student"]) == 0
    assert "Conv2d" in capsys.readouterr().out
    files = EventFiles.read(run)
    assert calls(files.find("teacher")[1]) == CALLS
    assert calls(files.find("student")[1]) == CALLS
    assert main(["diff", f"{run}:teacher", f"{run}:student"]) == 0


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "there is no file"),
        (b"", "is no model: expected an ExportedProgram, TorchScript or ONNX file"),
        (b"\x08\x07\xff\xff", "cannot be read"),
        (b"PK\x03\x04 cut off", "cannot be read"),
    ],
)
def test_what_is_no_model_is_refused_with_a_reason(
    contents: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.bin"
    if contents is not None:
        file.write_bytes(contents)
    assert main(["import", str(file)]) == 2
    assert message in capsys.readouterr().err


def test_a_file_of_weights_is_refused_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(net().state_dict(), tmp_path / "weights.pt")
    assert main(["import", str(tmp_path / "weights.pt")]) == 2
    assert "holds weights" in capsys.readouterr().err
