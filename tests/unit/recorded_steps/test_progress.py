"""Progress of long recordings: shown on a terminal after a while, or when asked for; silent otherwise."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import textwrap
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from tb_plugin_structure import progress
from tb_plugin_structure.capture import capture
from tb_plugin_structure.progress import Progress, is_shown

SLOW = """
    import sys, time, torch
    from torch import nn
    class Slow(nn.Module):
        def forward(self, x):
            for _ in range(35):
                time.sleep(0.1)
                x = x + 1
            return x
    {hide}
    from tb_plugin_structure import StructureWriter
    with StructureWriter({logdir!r}{options}) as writer:
        writer.add_structure("teacher", Slow(), (torch.ones(2),))
"""


def run_on_a_terminal(logdir: Path, hide: str = "", options: str = "") -> str:
    """What a recording of 3.5 seconds writes to a terminal as its standard error."""
    code = textwrap.dedent(SLOW).format(logdir=str(logdir), hide=hide, options=options)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait() == 0, seen.decode()
    return seen.decode()


def test_a_long_recording_shows_a_bar_on_a_terminal_and_takes_it_away(tmp_path: Path) -> None:
    text = run_on_a_terminal(tmp_path)
    assert "Recording teacher" in text
    assert "kernels" in text
    assert text.endswith(" \r")  # its line is wiped


def test_without_tqdm_one_line_is_written_over_and_over(tmp_path: Path) -> None:
    text = run_on_a_terminal(tmp_path, hide="sys.modules['tqdm'] = None")
    assert "Recording teacher: " in text
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")


def test_it_is_off_with_a_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_on_a_terminal(tmp_path / "a", options=", progress=False") == ""
    monkeypatch.setenv("TB_STRUCTURE_PROGRESS", "0")
    assert run_on_a_terminal(tmp_path / "b") == ""


def test_where_standard_error_is_no_terminal_it_shows_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    waiting = threading.Event()

    class Waiting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            waiting.wait(0.3)
            return x + 1

    capture(Waiting(), torch.ones(2), name="teacher")
    assert capsys.readouterr().err == ""
    capture(Waiting(), torch.ones(2), name="teacher", progress=True)
    assert capsys.readouterr().err.startswith("Recording teacher: 0 s\n")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tb-structure")]


def test_what_is_quick_shows_nothing_even_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    capture(nn.Linear(2, 2), torch.ones(1, 2), progress=True)
    assert capsys.readouterr().err == ""


def test_inner_work_shows_in_the_place_of_the_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    monkeypatch.setattr(progress, "INTERVAL_S", 0.02)
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress._Lines, "_interval_s", 0.0)
    pause = threading.Event()
    with Progress("Comparing", shown=True):
        pause.wait(0.2)
        with Progress("Timing", unit="passes", shown=True) as inner:
            for _ in inner.steps(3):
                pause.wait(0.1)
        pause.wait(0.2)
    lines = [line.split(",")[0] for line in sys.stderr.getvalue().splitlines()]
    assert lines[0] == "Comparing: 0 s"
    assert "Timing: 1 of 3 passes" in lines
    assert lines[-1] == "Comparing: 0 s"


def test_the_environment_decides_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TB_STRUCTURE_PROGRESS", "1")
    assert is_shown() is True
    assert is_shown(False) is False
    monkeypatch.setenv("TB_STRUCTURE_PROGRESS", "off")
    assert is_shown() is False
    with progress.switched(True):
        assert is_shown() is True
