"""The example of a plan runs from end to end (a few steps; its accuracy is not looked at)."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_a_vit_learns_from_a_cnn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["distill_with_plan.py", "--steps", "3"])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / "distill_with_plan.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "blocks.1 -> stage2: DropTokens(1) → tokens to map(4x4) → Conv1x1(24->64)" in out
    assert "without hints" in out
    assert "with hints" in out
