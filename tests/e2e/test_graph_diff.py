"""Working in the Graph diff: by keyboard, with pins, with links, in both themes."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.graph_tab import OpenTab, address, details, outline, painted, picture, selected
from tests.support.tensorboard_server import TensorBoardServer

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

pytestmark = pytest.mark.e2e

BERTS = "t=bert%3Astructure%2FBERT-base&s=bert%3Astructure%2FDistilBERT"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    import log_pairs as example

    folder = tmp_path_factory.mktemp("graph-diff")
    example.log_berts(folder / "bert")
    with TensorBoardServer(folder) as running:
        running.records(at_least=2)
        yield running


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
    blocks = details(tab).get_by_label("teacher blocks")
    expect(blocks).to_have_value("0, 2, 4, 7, 9, 11")
    details(tab).get_by_label("paired by").select_option("last")
    expect(blocks).to_have_value("6, 7, 8, 9, 10, 11", timeout=10_000)


def test_chosen_blocks_are_kept_in_the_address_and_in_the_plan(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&at=S:transformer.layer.1")
    blocks = details(tab).get_by_label("teacher blocks")
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
    expect(details(tab)).to_contain_text("BertLayer")


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


def test_verdicts_colour_the_picture_of_an_address_and_of_new_pairs(
    server: TensorBoardServer, open_tab: OpenTab
) -> None:
    unmatched = (253, 242, 217)  # a card that is only in the teacher: the light theme's amber
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&colour=shape%20verdict")
    canvas = picture(tab)
    until(lambda: painted(canvas, unmatched) > 500)
    tab.frame.get_by_label("policy").select_option("uniform")
    tab.page.wait_for_timeout(300)
    canvas = picture(tab)
    until(lambda: painted(canvas, unmatched) > 500)


def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something holds; AssertionError when it never does."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_one_model_alone_is_a_graph_of_it(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=bert%3Astructure%2FDistilBERT&s=-")
    tab.expect_text("DistilBertModel with 92 modules")
    expect(tab.frame.get_by_role("treegrid")).to_be_visible()
    assert "only in" not in tab.text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_barrier_for_anyone(server: TensorBoardServer, open_tab: OpenTab, theme: str) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    picture(tab)
    if theme == "dark":
        tab.page.evaluate("document.body.classList.add('dark-mode')")
    assert not tab.barriers(), "nothing selected"
    outline(tab).get_by_role("row").filter(has_text="word_embeddings").click()
    expect(details(tab)).to_contain_text("Why")
    assert not tab.barriers(), "a pair selected"
    tab.frame.get_by_role("searchbox").fill("class:Linear")
    tab.frame.get_by_label("colour").select_option("parameters")
    tab.frame.get_by_role("button", name="Export what is shown").click()
    assert not tab.barriers(), "searching, coloured, exporting"
    tab.frame.get_by_role("button", name="Write pins and policies into the run").click()
    expect(tab.frame.get_by_role("dialog")).to_be_visible()
    assert not tab.barriers(), "a dialog"


def test_the_first_picture_needs_little_code(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    picture(tab)
    files = tab.frame.locator("body").evaluate(
        "() => performance.getEntriesByType('resource').map((file) => [file.name, file.encodedBodySize])"
    )
    code = {name.rpartition("/")[2]: size for name, size in files if "/static/" in name and "minimap" not in name}
    assert {"graph_diff.js"} < code.keys()
    assert any(name.startswith("layout.worker") for name in code)
    # As it comes, compressed, the worker that lays out included.
    assert sum(code.values()) <= 80_000, code


def test_outline_and_graph_are_scrolled_together(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&open=all&arrange=merged")
    canvas = picture(tab)
    body, page = outline(tab), tab.page
    top = body.get_by_role("row").first
    expect(top).to_contain_text("BertModel")
    # In half of all runs with 50,000 operators the browser's own anchoring scrolled without end.
    expect(body).to_have_css("overflow-anchor", "none")
    # The picture begins with the models' names: white on most of its upper edge.
    before = canvas.screenshot()
    body.hover()
    page.mouse.wheel(0, 100)
    page.wait_for_timeout(300)  # what follows is loaded with the first movement
    page.mouse.wheel(0, 100_000)
    page.wait_for_timeout(900)
    assert canvas.screenshot() != before, "the graph follows the outline"
    at_end = position(body)
    assert at_end > 0.9
    drag(canvas, 0, 4000)
    page.wait_for_timeout(900)
    assert position(body) < at_end - 0.05, "the outline follows the graph"
    tab.frame.get_by_role("button", name="Scroll outline and graph together").click()
    alone = position(body)
    drag(canvas, 0, -2000)
    page.wait_for_timeout(600)
    assert position(body) == alone, "each on its own"
    assert "scroll=apart" in address(tab)


def position(body: Locator) -> float:
    """How far a list is scrolled, 0 to 1."""
    return float(body.evaluate("(list) => list.scrollTop / (list.scrollHeight - list.clientHeight)"))


def drag(canvas: Locator, x: float, y: float) -> None:
    """Moves the picture by pixels, in as many strokes as the window allows."""
    box = canvas.bounding_box()
    assert box is not None
    mouse = canvas.page.mouse
    stroke = 300
    for _ in range(max(1, round(max(abs(x), abs(y)) / stroke))):
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        share = stroke / max(abs(x), abs(y), stroke) / 2
        mouse.move(middle[0] - x * share, middle[1] - y * share)
        mouse.down()
        mouse.move(middle[0] + x * share, middle[1] + y * share, steps=3)
        mouse.up()


def test_a_line_of_what_changed_leads_to_its_place_or_to_all_of_its_places(
    server: TensorBoardServer, open_tab: OpenTab
) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    outline(tab)
    edits = details(tab).get_by_role("listitem")
    edits.filter(has_text=re.compile("^.?pooler ")).get_by_role("button").click()
    expect(selected(tab)).to_contain_text("pooler")
    expect(tab.page).to_have_url(re.compile("at=T:pooler"))
    tab.page.keyboard.press("Escape")
    # One line speaks of the attention of all blocks that only the teacher has.
    edits.filter(has_text=re.compile(r"layer\.#\.attention\.output ")).get_by_role("button").first.click()
    expect(tab.frame.get_by_role("searchbox")).not_to_have_value("")
    expect(tab.frame.locator(".search output")).to_have_text(re.compile(r"^1 of \d+$"))
    expect(selected(tab)).to_contain_text("BertSelfOutput")


def test_a_kind_of_the_summary_is_a_filter(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", BERTS)
    rows = outline(tab).get_by_role("row")
    expect(rows.filter(has_text="word_embeddings")).to_have_count(1)
    tab.frame.get_by_role("button", name=re.compile("only in teacher")).click()
    expect(rows.filter(has_text="word_embeddings")).to_have_count(0)
    expect(rows.filter(has_text="pooler").first).to_be_visible()


def test_the_visible_part_is_exported_alone(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BERTS}&view=graph&arrange=merged&at=T:pooler.dense")
    picture(tab)
    tab.page.keyboard.press("z")
    tab.page.wait_for_timeout(400)
    drawings = {}
    for name in ("Graph as SVG", "Visible part as SVG"):
        tab.frame.get_by_role("button", name="Export what is shown").click()
        with tab.page.expect_download() as download:
            tab.frame.get_by_role("button", name=name).click()
        drawings[name] = Path(download.value.path()).read_text()
    whole, part = drawings["Graph as SVG"], drawings["Visible part as SVG"]
    assert "dense" in part
    assert "dense" in whole
    assert "word_embeddings" in whole
    assert "word_embeddings" not in part
    assert extent(part) < 0.5 * extent(whole)


def extent(drawing: str) -> float:
    found = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', drawing)
    assert found is not None
    return float(found[1]) * float(found[2])
