"""The code in the documentation runs, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.tensorboard import SummaryWriter

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/*.md"))]


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def small_classifier(hidden: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(32, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))


def distillation_loss(student_logits: torch.Tensor, targets: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(student_logits, labels) + F.mse_loss(student_logits, targets)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the documents' snippets take from the reader's own code."""
    from transformers import BertConfig, BertModel

    from tb_plugin_structure import StructureWriter

    monkeypatch.chdir(tmp_path)
    student = small_classifier(16)
    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=99)
    return {
        "torch": torch,
        "StructureWriter": StructureWriter,
        "teacher": small_classifier(64).requires_grad_(False),
        "student": student,
        "x": torch.randn(8, 32),
        "loader": [(torch.randn(8, 32), torch.randint(10, (8,))) for _ in range(2)],
        "optimizer": torch.optim.SGD(student.parameters(), lr=0.1),
        "kd_loss": distillation_loss,
        "distillation_loss": distillation_loss,
        "summary_writer": SummaryWriter(str(tmp_path / "shared")),
        "writer": StructureWriter(tmp_path / "own"),
        "bert": BertModel(config).eval(),
        "ids": torch.randint(99, (2, 7)),
        "mask": torch.ones(2, 7, dtype=torch.long),
        "LargeModel": lambda: torch.nn.Embedding(50_000, 8192),
    }


@pytest.mark.parametrize("document", ["README.md", "docs/quickstart.md"])
def test_snippets_run_one_after_the_other(document: str, names: dict[str, Any], tmp_path: Path) -> None:
    blocks = python_blocks(ROOT / document)
    assert blocks
    for block in blocks:
        exec(compile(block, document, "exec"), names)  # what the reader would paste
    names["writer"].close()
    assert list(tmp_path.rglob("*tfevents*"))


def test_quickstart_without_tensorboard_pairs_every_layer_and_makes_adapters(names: dict[str, Any]) -> None:
    (block,) = [block for block in python_blocks(ROOT / "docs" / "quickstart.md") if "module_pairs" in block]
    exec(compile(block, "quickstart", "exec"), names)
    assert names["alignment"].module_pairs()["2"] == ["2"]
    features = torch.randn(8, 16)
    assert names["adapters"]["0"](features).shape == (8, 64)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_within_the_repository_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []
