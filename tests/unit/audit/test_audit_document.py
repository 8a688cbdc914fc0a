"""docs/audit.md: its code runs, and it names every rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tb_plugin_structure.analysis.audit.findings import registered_rules, unregister

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "audit.md").read_text()


def classifier(hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(32, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def test_the_code_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {
        "teacher": classifier(64).eval(),
        "student": classifier(16),
        "x": torch.randn(4, 32),
        "loader": [(torch.randn(4, 32), torch.randint(10, (4,))) for _ in range(2)],
    }
    before = names["student"][0].weight.clone()
    try:
        for block in re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL):
            exec(compile(block, "docs/audit.md", "exec"), names)
    finally:
        unregister("wide-head")
    assert not torch.equal(before, names["student"][0].weight)
    assert "Linear(16->64)" in capsys.readouterr().out


def test_every_rule_is_described() -> None:
    missing = [name for name in registered_rules() if f"`{name}`" not in TEXT]
    assert missing == []
