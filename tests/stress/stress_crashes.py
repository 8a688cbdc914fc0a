"""``make stress``: a hundred trainings, killed at random moments, resumed, killed again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.surviving_records import check_files, check_reader

ROOT = Path(__file__).parents[2]
TRAININGS = int(os.environ.get("STRESS_TRAININGS", "100"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.support.killed_training", str(folder), str(TRAININGS), "2"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=1_800)
    return folder


def test_everything_flushed_is_on_disk_and_undamaged(killed: Path) -> None:
    read = check_files(killed)
    print(f"\n{TRAININGS} trainings killed twice each: {read:,} records read, none lost, none damaged")
    assert read > TRAININGS


@pytest.mark.parametrize("fast", [False, True], ids=["python", "rust"])
def test_every_training_is_one_history(killed: Path, fast: bool) -> None:
    assert check_reader(killed, fast=fast) > TRAININGS // 2
