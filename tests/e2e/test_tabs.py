"""The three tabs in Chromium, on records made from real models a moment ago."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

from tb_plugin_structure import StructureWriter
from tests.e2e.conftest import Tab
from tests.support.tensorboard_server import TensorBoardServer

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]


def log_pairs(folder: Path) -> None:
    """ResNet-50 and 18, BERT-base and DistilBERT, as figures in the literature know them; nothing is computed."""
    import log_pairs as example

    example.log_resnets(folder / "resnet")
    example.log_berts(folder / "bert")


def log_training(folder: Path) -> None:
    """Two small vision transformers over three recorded steps."""
    from models.vit import VisionTransformer

    torch.manual_seed(0)
    teacher, student = VisionTransformer(depth=3, width=32, heads=4), VisionTransformer(depth=2, width=16, heads=2)
    with StructureWriter(folder / "digits") as writer:
        for step in (0, 10, 20):
            x = torch.randn(2, 1, 8, 8)
            with writer.record_step({"teacher": teacher, "student": student}, step=step):
                with torch.no_grad():
                    wanted = teacher(x)
                torch.nn.functional.mse_loss(student(x), wanted).backward()


@pytest.fixture(scope="module", params=["python", "rust"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp(f"tabs-{request.param}")
    log_pairs(folder)
    log_training(folder)
    with TensorBoardServer(folder, fast=request.param == "rust") as running:
        running.records(at_least=6)
        yield running


def pair(run: str, teacher: str, student: str) -> str:
    """The part of an address that names both sides."""
    return f"t={run}%3Astructure%2F{teacher}&s={run}%3Astructure%2F{student}"


RESNETS = pair("resnet", "ResNet-50", "ResNet-18")
BERTS = pair("bert", "BERT-base", "DistilBERT")


def test_resnet_rows_and_adapters_are_in_the_page(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", RESNETS)
    # Stage outputs and 1x1 convolutions of the pair ResNet-50, ResNet-18 at 224 x 224.
    for text in ("256×56×56", "64×56×56", "512×28×28", "1024×14×14", "Conv1x1(64->256)", "Conv1x1(128->512)"):
        tab.expect_text(text)
    tab.expect_text("0.46 × parameters")
    # The last stage lies below the fold of a virtualised table; a filter brings it up.
    tab.frame.get_by_placeholder("Search these columns").fill("layer4")
    for text in ("2048×7×7", "512×7×7", "Conv1x1(512->2048)"):
        tab.expect_text(text)
    # Numbers are short at rest and exact on hover.
    expect(tab.frame.locator('[data-tip^="1,048,576"]').first).to_be_visible()


def test_bert_needs_no_adapter(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", BERTS)
    tab.expect_text("128×768")
    assert "Linear(768" not in tab.text()


def test_graph_diff_opens_on_a_sentence_and_pairs_the_layers(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    tab.expect_text("6 of 12")
    tab.expect_text("0.61")
    tab.expect_text("pooler")


def test_attention_shows_both_models_and_their_steps(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention")
    tab.expect_text("teacher")
    tab.expect_text("student")
    tab.expect_text("20")
    canvas = tab.frame.locator("canvas").first
    canvas.wait_for(timeout=30_000)
    painted = canvas.evaluate(
        """canvas => {
            const {width, height} = canvas;
            const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
            return seen.size;
        }"""
    )
    assert painted > 10, "the overview is a picture, not one colour"


@pytest.mark.parametrize("name", ["graph_diff", "shape_audit", "attention"])
def test_dark_theme(server: TensorBoardServer, open_tab: OpenTab, name: str) -> None:
    tab = open_tab(server.url, name)
    tab.expect_text("teacher")

    def brightness() -> float:
        colour = tab.frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        red, green, blue = (float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
        return (red + green + blue) / 3

    light = brightness()
    tab.page.evaluate("document.body.classList.add('dark-mode')")
    tab.page.wait_for_timeout(300)
    assert brightness() < 100 < light


def test_a_model_nobody_here_has_tried(
    open_tab: OpenTab, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    """A family of transformers chosen at random, tiny and randomly initialised, is recorded and drawn."""
    from tests.support.tiny_transformers import random_tiny_model

    seed = random.SystemRandom().randrange(1 << 30)
    record_property("seed", seed)
    family, model, kwargs = random_tiny_model(seed)
    print(f"family {family}, seed {seed}")
    with StructureWriter(tmp_path / "run") as writer:
        structure = writer.add_structure("teacher", model, kwargs=kwargs)
    assert structure is not None
    with TensorBoardServer(tmp_path) as server:
        server.records()
        tab = open_tab(server.url, "graph_diff")
        tab.expect_text(type(model).__name__)
        children = [structure.call_path(call) for call in structure.call_children[0]]
        tab.expect_text(children[0].rpartition(".")[2])


@pytest.mark.parametrize("name", ["graph_diff", "shape_audit", "attention"])
def test_without_data_the_tab_says_what_to_write_and_data_may_come_later(
    open_tab: OpenTab, tmp_path: Path, name: str
) -> None:
    with TensorBoardServer(tmp_path) as server:
        tab = open_tab(server.url, name)
        tab.expect_text("StructureWriter")
        log_training(tmp_path)
        server.records(at_least=2)
        tab.page.get_by_role("button", name="Reload data").or_(
            tab.page.locator("button[title*='eload'], .reload-button")
        ).first.click()
        tab.expect_text("teacher")


def test_a_path_prefix(open_tab: OpenTab, tmp_path: Path) -> None:
    log_training(tmp_path)
    with TensorBoardServer(tmp_path, "--path_prefix", "/deep/inside") as server:
        server.records(at_least=2)
        tab = open_tab(server.url, "graph_diff")
        tab.expect_text("teacher")


def test_a_forward_that_raised_is_shown_with_its_error(open_tab: OpenTab, tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    with StructureWriter(tmp_path / "run") as writer:
        with pytest.raises(Exception, match="mat1 and mat2"):
            writer.add_structure("broken", model, torch.zeros(1, 4))
    with TensorBoardServer(tmp_path) as server:
        server.records()
        tab = open_tab(server.url, "graph_diff")
        tab.expect_text("mat1 and mat2 shapes cannot be multiplied")
