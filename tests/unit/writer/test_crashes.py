"""Training that is killed keeps what was flushed; training that cannot write goes on."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from tb_plugin_structure import StructureWriter
from tests.support.surviving_records import check_files, check_reader, values

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.support.killed_training", str(folder), "12", "1"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)
    return folder


def test_what_was_flushed_before_the_kill_is_on_disk_and_undamaged(killed: Path) -> None:
    assert check_files(killed) > 50


@pytest.mark.parametrize("fast", [False, True], ids=["python", "rust"])
def test_a_killed_and_resumed_training_shows_one_history(killed: Path, fast: bool) -> None:
    assert check_reader(killed, fast=fast) >= 8


def steps_of_training(writer: StructureWriter, begin: int, end: int, width: int = 4) -> int:
    """A training whose own result must not depend on the writer. Returns the steps that it made."""
    model = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made = 0
    for step in range(begin, end):
        # A layer more at each step, so that each step has a structure to write.
        student = nn.Sequential(model, *[nn.Identity() for _ in range(step)])
        with writer.record_step({"student": student}, step=step, optimizer=optimizer):
            student(torch.randn(2, 3)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        writer.flush()
        made += 1
    return made


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[StructureWriter]:
    made = StructureWriter(tmp_path / "run")
    yield made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.close()


def ours(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught if "tb_plugin_structure" in str(warning.message)]


def test_a_deleted_log_directory_gives_one_warning_and_training_goes_on(
    writer: StructureWriter, tmp_path: Path
) -> None:
    assert steps_of_training(writer, 0, 3) == 3
    shutil.rmtree(tmp_path / "run")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert steps_of_training(writer, 3, 8) == 5
    assert len(ours(caught)) == 1
    assert "training goes on" in ours(caught)[0]


def test_a_directory_that_became_a_file_gives_one_warning_and_training_goes_on(
    writer: StructureWriter, tmp_path: Path
) -> None:
    assert steps_of_training(writer, 0, 3) == 3
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("in the way")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert steps_of_training(writer, 3, 8) == 5
    assert len(ours(caught)) == 1


def test_a_full_disk_gives_one_warning_keeps_what_was_written_and_ends_with_the_shortage(
    writer: StructureWriter, tmp_path: Path
) -> None:
    assert steps_of_training(writer, 0, 3) == 3
    (path,) = (tmp_path / "run").iterdir()
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 500, hard))  # Python ignores SIGXFSZ: a write fails with EFBIG
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert steps_of_training(writer, 3, 8) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(ours(caught)) == 1
    steps = {step for _, tag, step, _ in values(path) if tag == "structure/student"}
    assert steps == {0, 1, 2}


def test_writing_begins_again_in_a_new_file_once_the_directory_can_be_written(
    writer: StructureWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tb_plugin_structure.event_file.SECONDS_BETWEEN_ATTEMPTS", 0.0)
    assert steps_of_training(writer, 0, 2) == 2
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    (tmp_path / "run").write_text("in the way")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps_of_training(writer, 2, 4)
    (tmp_path / "run").unlink()
    shutil.move(tmp_path / "elsewhere", tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps_of_training(writer, 4, 7)
    found = {step for path in (tmp_path / "run").iterdir() for _, tag, step, _ in values(path) if "student" in tag}
    assert {0, 1} <= found
    assert {5, 6} <= found


def test_a_shared_summary_writer_shows_one_history_after_purge(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    for purge_step, steps in ((None, range(0, 6)), (3, range(3, 9))):
        with SummaryWriter(str(tmp_path), purge_step=purge_step) as summary_writer:
            writer = StructureWriter(summary_writer)
            steps_of_training(writer, steps.start, steps.stop)
            summary_writer.add_scalar("loss", 1.0, steps.stop)
            writer.close()
    assert len(list(tmp_path.glob("*tfevents*"))) == 2
    found = [
        step for path in sorted(tmp_path.iterdir()) for _, tag, step, _ in values(path) if tag == "structure/student"
    ]
    assert found == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8]
