"""A report that `tb-structure export` wrote, opened from disk: no server, no network, no error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.cli.main import main
from tests.e2e.conftest import Tab

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]
HOSTILE = "</script><script>document.title='owned'</script>"


def open_report(page: Page, report: Path) -> list[str]:
    """Opens the file offline; returns the list into which the addresses of further requests go."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.startswith("http") else None)
    page.context.set_offline(True)
    page.goto(report.as_uri())
    page.get_by_role("treegrid").wait_for(timeout=30_000)
    return asked


@pytest.mark.usefixtures("open_tab")  # it fails the test on any error in the console of the page
def test_the_comparison_of_two_berts(page: Page, tmp_path: Path) -> None:
    import log_pairs as example

    example.log_berts(tmp_path / "bert")
    report = tmp_path / "report.html"
    logdir = tmp_path / "bert"
    assert main(["export", f"{logdir}:BERT-base", f"{logdir}:DistilBERT", "--out", str(report)]) == 0

    asked = open_report(page, report)
    outline = page.get_by_role("treegrid")
    for name in ("BertModel", "DistilBertModel", "embeddings", "pooler"):
        expect(outline).to_contain_text(name)
    page.locator("canvas.graph").wait_for(timeout=30_000)
    outline.get_by_role("row").filter(has_text="×6").first.click()
    details = page.get_by_role("complementary")
    expect(details).to_contain_text("0, 2, 4, 7, 9, 11")
    page.get_by_label("policy").select_option("last")
    expect(details).to_contain_text("6, 7, 8, 9, 10, 11")
    assert asked == []


@pytest.mark.usefixtures("open_tab")
def test_hostile_names_and_pins_of_numbered_modules(page: Page, tmp_path: Path) -> None:
    """A browser orders keys that are numbers by itself; the answers must be found all the same."""
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    student = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with StructureWriter(tmp_path) as writer:
        writer.add_structure(HOSTILE, teacher, (torch.zeros(1, 4),))
        writer.add_structure("small", student, (torch.zeros(1, 4),))
    report = tmp_path / "report.html"
    pins = ["--pin", "2=4", "--pin", "0=2", "--policy", "uniform"]
    assert main(["export", f"{tmp_path}:{HOSTILE}", f"{tmp_path}:small", "--out", str(report), *pins]) == 0

    asked = open_report(page, report)
    first = page.get_by_role("row").filter(has_text="0Linear").filter(has_text="2Linear")
    expect(first).to_contain_text("0.56 ×")
    expect(page).to_have_title("Graph diff")
    expect(page.get_by_label("policy")).to_have_value("uniform")
    expect(page.get_by_label("Teacher").locator("option:checked")).to_contain_text(HOSTILE)
    assert asked == []
