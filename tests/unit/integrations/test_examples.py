"""The examples of docs/monitor.md run as they are, and leave what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.read_summaries import histograms, records, scalars

ROOT = Path(__file__).parents[3]


def run(name: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--logdir", str(folder), *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3_000:]
    return done.stdout


def test_a_loop_of_ones_own(tmp_path: Path) -> None:
    text = run("monitor_loop", tmp_path, "--steps", "21")
    assert f"written to {tmp_path}" in text
    found = scalars(tmp_path)
    assert sorted(found["monitor/loss"]) == sorted(found["update_ratio/student/blocks.1"]) == [0, 10, 20]
    assert histograms(tmp_path)["weights/student/head.weight"] == [0]
    assert {"structure/teacher", "structure/student", "outside/step"} <= set(records(tmp_path))


def test_turned_off_it_writes_nothing(tmp_path: Path) -> None:
    assert "written to nowhere" in run("monitor_loop", tmp_path / "off", "--steps", "3", "--off")
    assert not (tmp_path / "off").exists()


def test_transformers(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    run("monitor_transformers", tmp_path, "--examples", "32")
    assert sorted(scalars(tmp_path)["gradient_norm/student"]) == [0]
    assert "overview/student" in records(tmp_path)


def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    run("monitor_lightning", tmp_path, "--steps", "11")
    assert sorted(scalars(tmp_path)["monitor/loss"]) == [0, 10]
    assert "structure/teacher" in records(tmp_path)
