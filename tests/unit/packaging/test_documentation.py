"""Every piece of Python in the documentation runs, page by page, and its links lead somewhere.

Commands are the concern of test_documented_commands.py.
"""

from __future__ import annotations

import importlib
import json
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.tensorboard import SummaryWriter

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "PYPI.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(ROOT.glob("docs/*.md")),
]
NOTEBOOK = ROOT / "examples" / "compare_two_models.ipynb"


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), flags=re.MULTILINE | re.DOTALL)


PAGES = [path.relative_to(ROOT).as_posix() for path in DOCUMENTS if python_blocks(path)]


def small_classifier(hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(32, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def distillation_loss(student_logits: torch.Tensor, targets: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(student_logits, labels) + F.mse_loss(student_logits, targets)


def tiny_bert() -> Any:
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=99)
    return BertModel(config).eval(), BertForSequenceClassification(config)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the documents' snippets take from the reader's own code."""
    from tb_plugin_structure import StructureWriter

    monkeypatch.chdir(tmp_path)
    student = small_classifier(16)
    bert, _ = tiny_bert()
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
        "bert": bert,
        "ids": torch.randint(99, (2, 7)),
        "mask": torch.ones(2, 7, dtype=torch.long),
        "LargeModel": lambda: nn.Embedding(50_000, 8192),
    }


def of_alignment() -> dict[str, Any]:
    """The teacher and the student whose modules the page pins by name."""

    def model(*layers: tuple[str, int]) -> nn.Sequential:
        named = {name: nn.LayerNorm(32) if name in ("norm", "ln_f") else nn.Linear(32, width) for name, width in layers}
        return nn.Sequential(OrderedDict(named))

    return {
        "teacher": model(("body", 32), ("ln_f", 32), ("classifier", 10)),
        "student": model(("body", 32), ("gate", 32), ("norm", 32), ("head", 10)),
    }


def of_attention() -> dict[str, Any]:
    ids = torch.randint(99, (4, 7))
    scores = torch.randn(1, 2, 5, 5)
    query = torch.randn(1, 2, 5, 8)
    return {
        "teacher": tiny_bert()[0],
        "student": tiny_bert()[0],
        "batch": {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        "tokens": [f"word{position}" for position in range(7)],
        "step": 0,
        "probabilities": scores.softmax(-1),
        "q": query,
        "k": query,
        "mask": None,
    }


def of_monitor() -> dict[str, Any]:
    return {"images": torch.randn(8, 32), "labels": torch.randint(10, (8,))}


def of_lightning() -> dict[str, Any]:
    import lightning

    return {"Trainer": lightning.Trainer}


def of_transformers() -> dict[str, Any]:
    import transformers

    one = torch.tensor([5, 6, 7])
    return {
        "Trainer": transformers.Trainer,
        "training_arguments": transformers.TrainingArguments("trainer", report_to=[], use_cpu=True),
        "data": [{"input_ids": one, "attention_mask": torch.ones_like(one), "labels": 0}],
    }


MORE = {
    "docs/alignment.md": of_alignment,
    "docs/attention.md": of_attention,
    "docs/monitor.md": of_monitor,
    "docs/monitor_lightning.md": of_lightning,
    "docs/monitor_transformers.md": of_transformers,
}


@pytest.mark.parametrize("document", PAGES)
@pytest.mark.filterwarnings("ignore")
def test_python_of_a_page_runs_block_after_block(
    document: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package, not the module of the same name that `from … import findings` might give.
    findings = importlib.import_module("tb_plugin_structure.analysis.audit.findings")
    monkeypatch.setattr(findings, "_RULES", dict(findings.registered_rules()))  # a page may add a rule
    names |= MORE.get(document, dict)()
    for block in python_blocks(ROOT / document):
        exec(compile(block, document, "exec"), names)  # what the reader would paste
    names["writer"].close()


def test_pages_with_python_are_known() -> None:
    assert {
        "README.md",
        "PYPI.md",
        "docs/tutorial.md",
        "docs/quickstart.md",
        "docs/monitor.md",
        "docs/audit.md",
    } <= set(PAGES)


def test_the_tutorial_gives_what_it_says(
    names: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tb_plugin_structure.cli.main import main

    for block in python_blocks(ROOT / "docs" / "tutorial.md"):
        exec(compile(block, "tutorial.py", "exec"), names)
    printed = capsys.readouterr().out
    assert "The student has 2 of 4 blocks of blocks" in printed
    assert "torch.Size([8, 16, 64])" in printed
    assert main(["audit", "runs/first", "--format", "text"]) == 0
    assert "silent-broadcast" in capsys.readouterr().out


def test_quickstart_without_tensorboard_pairs_every_layer_and_makes_adapters(names: dict[str, Any]) -> None:
    (block,) = [block for block in python_blocks(ROOT / "docs" / "quickstart.md") if "module_pairs" in block]
    exec(compile(block, "quickstart", "exec"), names)
    assert names["alignment"].module_pairs()["2"] == ["2"]
    features = torch.randn(8, 16)
    assert names["adapters"]["0"](features).shape == (8, 64)


def test_the_notebook_runs_cell_after_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but the two lines that Jupyter itself executes; `make deployments` runs those in a real kernel."""
    monkeypatch.chdir(tmp_path)
    cells = [
        "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    namespace: dict[str, Any] = {}
    for cell in cells[:-1]:
        assert "%" not in cell.replace("100%", "")
        exec(compile(cell, NOTEBOOK.name, "exec"), namespace)
    assert cells[-1] == "%load_ext tensorboard\n%tensorboard --logdir runs/notebook"
    assert list((tmp_path / "runs" / "notebook").glob("*tfevents*"))
    assert "| adapt" in capsys.readouterr().out


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_within_the_repository_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    """`make docs` checks more; this needs none of its packages."""
    listed = re.findall(r":\s*([a-z_]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    pages = {path.name for path in ROOT.glob("docs/*.md")} | {"index.md", "changelog.md", "contributing.md"}
    assert sorted(listed) == sorted(pages)
