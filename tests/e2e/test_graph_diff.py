"""Working in the Graph diff: by keyboard, with pins, with links, in both themes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.conftest import Tab
from tests.support.tensorboard_server import TensorBoardServer

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]
AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
BERTS = "t=bert%3Astructure%2FBERT-base&s=bert%3Astructure%2FDistilBERT"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    import log_pairs as example

    folder = tmp_path_factory.mktemp("graph-diff")
    example.log_berts(folder / "bert")
    with TensorBoardServer(folder) as running:
        running.records(at_least=2)
        yield running


def outline(tab: Tab) -> Locator:
    grid = tab.frame.get_by_role("treegrid")
    grid.wait_for(timeout=30_000)
    return grid


def selected(tab: Tab) -> Locator:
    return tab.frame.locator('[role=row][aria-selected="true"]')


def address(tab: Tab) -> str:
    return unquote(tab.page.evaluate("location.hash"))


def test_the_outline_is_walked_by_keyboard_alone(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    outline(tab).focus()
    tab.page.keyboard.press("Home")
    expect(selected(tab)).to_contain_text("DistilBertModel")
    tab.page.keyboard.press("ArrowRight")
    expect(selected(tab)).to_contain_text("embeddings")
    tab.page.keyboard.press("Enter")
    expect(selected(tab)).to_have_attribute("aria-expanded", "false")
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.press("ArrowDown")
    expect(selected(tab)).to_have_attribute("aria-level", "3")
    tab.page.keyboard.press("ArrowLeft")
    expect(selected(tab)).to_have_attribute("aria-level", "2")
    expect(tab.page).to_have_url(re.compile(r"at=S:embeddings"))


def test_two_blocks_are_paired_and_the_pair_is_undone(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&at=T:encoder.layer.1")
    outline(tab)
    expect(selected(tab)).to_contain_text("layer.1")
    # By the policy "copy" of DistilBERT's authors, the student's second block comes from the teacher's third.
    second = outline(tab).get_by_role("row").filter(has_text=re.compile("layer.2BertLayer.*layer.1TransformerBlock"))
    second.click(modifiers=["Control"])
    tab.page.keyboard.press("m")
    pinned = outline(tab).get_by_role("row").filter(has_text=re.compile("layer.1BertLayer.*layer.1TransformerBlock"))
    expect(pinned).to_be_visible(timeout=10_000)
    assert '{"transformer.layer.1":"encoder.layer.1"}' in address(tab)
    tab.page.keyboard.press("Control+z")
    expect(second).to_be_visible(timeout=10_000)
    expect(tab.page).not_to_have_url(re.compile("pins="))


def test_a_policy_chosen_for_a_stack_changes_its_pairs(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&at=S:transformer.layer.1")
    details = tab.frame.get_by_role("complementary")
    blocks = details.get_by_label("teacher blocks")
    expect(blocks).to_have_value("0, 2, 4, 7, 9, 11")
    details.get_by_label("paired by").select_option("last")
    expect(blocks).to_have_value("6, 7, 8, 9, 10, 11", timeout=10_000)


def test_chosen_blocks_are_kept_in_the_address_and_in_the_plan(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&at=S:transformer.layer.1")
    blocks = tab.frame.get_by_role("complementary").get_by_label("teacher blocks")
    blocks.fill("1, 3, 5, 7, 9")
    blocks.press("Enter")
    expect(tab.frame.get_by_role("alert")).to_contain_text("give one for each of the 6")
    blocks.fill("1, 3, 5, 7, 8, 10")
    blocks.press("Enter")
    second = outline(tab).get_by_role("row").filter(has_text=re.compile("layer.3BertLayer.*layer.1TransformerBlock"))
    expect(second).to_be_visible(timeout=10_000)
    expect(tab.frame.get_by_role("alert")).to_have_count(0)
    assert '"transformer.layer":[1,3,5,7,8,10]' in address(tab)
    tab.frame.get_by_role("button", name="Export what is shown").click()
    with tab.page.expect_download() as download:
        tab.frame.get_by_role("button", name="Pins and policies as JSON").click()
    plan = json.loads(Path(download.value.path()).read_text())
    assert plan["policies"] == {"transformer.layer": [1, 3, 5, 7, 8, 10]}


def test_search_goes_from_result_to_result(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    outline(tab)
    search = tab.frame.get_by_role("searchbox")
    search.fill("class:Linear shape:[*,*,3072]")
    # Both feed-forward projections of 12 layers touch the inner width.
    expect(tab.frame.locator(".search output")).to_have_text("24")
    search.press("Enter")
    expect(selected(tab)).to_contain_text("lin1")
    search.press("Enter")
    expect(selected(tab)).to_contain_text("lin2")
    search.fill("shape:[banana]")
    expect(search).to_have_attribute("aria-invalid", "true")


def test_an_address_shows_the_same_picture(server: TensorBoardServer, open_tab: OpenTab) -> None:
    state = f"{BERTS}&at=S:transformer.layer.3.attention&kinds=deleted&view=outline"
    tab = open_tab(server.url, "graph_diff", state)
    outline(tab)
    expect(selected(tab)).to_contain_text("attention")
    expect(tab.frame.get_by_role("button", name=re.compile("only in teacher"))).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(tab.frame.locator("canvas.graph")).to_have_count(0)


def test_what_is_opened_stays_under_the_pointer(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&view=graph&arrange=merged&at=S:pooler")
    canvas = tab.frame.locator("canvas.graph")
    canvas.wait_for(timeout=30_000)
    box = canvas.bounding_box()
    assert box is not None
    # The card under a point is named in the hint; walk down the middle until one can be opened.
    hint = tab.frame.get_by_role("tooltip")
    for y in range(40, int(box["height"]), 12):
        canvas.hover(position={"x": box["width"] / 2, "y": y})
        if hint.is_visible() and "BertLayer" in hint.inner_text():
            break
    else:
        pytest.fail("the stack of layers is not in the picture")
    place = {"x": box["width"] / 2, "y": y}
    canvas.dblclick(position=place)
    tab.page.wait_for_timeout(600)
    canvas.click(position=place)
    expect(tab.frame.get_by_role("complementary")).to_contain_text("BertLayer")


def test_the_graph_is_exported_as_a_drawing(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    tab.frame.locator("canvas.graph").wait_for(timeout=30_000)
    tab.page.wait_for_timeout(1000)
    tab.frame.get_by_role("button", name="Export what is shown").click()
    with tab.page.expect_download() as download:
        tab.frame.get_by_role("button", name="Graph as SVG").click()
    drawing = Path(download.value.path()).read_text()
    for name in ("word_embeddings", "layer ×12", "1×128×768"):
        assert name in drawing


def test_a_report_opens_from_a_file_without_a_server(
    server: TensorBoardServer, open_tab: OpenTab, tmp_path: Path
) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&at=S:transformer.layer.1")
    outline(tab)
    tab.frame.get_by_role("button", name="Export what is shown").click()
    with tab.page.expect_download() as download:
        tab.frame.get_by_role("button", name="Report as one HTML file").click()
    report = tmp_path / "report.html"
    download.value.save_as(report)

    page = tab.page
    page.context.set_offline(True)
    page.goto(report.as_uri())
    # The picture that was exported: the same pair is selected, and the policies were computed beforehand.
    expect(page.locator('[role=row][aria-selected="true"]')).to_contain_text("layer.1", timeout=20_000)
    expect(page.get_by_role("complementary")).to_contain_text("0, 2, 4, 7, 9, 11")
    page.get_by_label("policy").select_option("uniform")
    expect(page.get_by_role("complementary")).to_contain_text("1, 3, 5, 7, 9, 11")
    page.context.set_offline(False)


def test_one_model_alone_is_a_graph_of_it(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=bert%3Astructure%2FDistilBERT&s=-")
    tab.expect_text("DistilBertModel with 92 modules")
    expect(tab.frame.get_by_role("treegrid")).to_be_visible()
    assert "only in" not in tab.text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_barrier_for_anyone(server: TensorBoardServer, open_tab: OpenTab, theme: str) -> None:
    if not AXE.is_file():
        pytest.fail("axe-core is not installed; run `npm ci` in frontend/")
    tab = open_tab(server.url, "graph_diff", BERTS)
    outline(tab)
    if theme == "dark":
        tab.page.evaluate("document.body.classList.add('dark-mode')")
    for state in ("nothing selected", "a pair selected"):
        if state == "a pair selected":
            outline(tab).get_by_role("row").nth(2).click()
        frame = next(frame for frame in tab.page.frames if "plugin_entry" in frame.url and "graph_diff" in frame.url)
        frame.evaluate(AXE.read_text())
        found = frame.evaluate("axe.run(document).then(result => result.violations)")
        serious = [
            (item["id"], item["nodes"][0]["html"]) for item in found if item["impact"] in ("serious", "critical")
        ]
        assert not serious, state
