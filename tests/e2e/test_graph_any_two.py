"""Any two records: steps of one run, two runs, one model alone, a graph of add_graph; and what the picture shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect
from torch.utils.tensorboard import SummaryWriter

from tb_plugin_structure import StructureWriter
from tests.e2e.graph_tab import OpenTab, details, outline, painted, picture
from tests.support.tensorboard_server import TensorBoardServer
from tests.unit.cli.toy_models import Classifier

pytestmark = pytest.mark.e2e

# What only the teacher has is filled with this colour (light, dark).
DELETED_FILL = {"light": (252, 233, 221), "dark": (87, 53, 32)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp("any-two")
    image = (torch.zeros(2, 3, 16, 16),)
    with StructureWriter(folder / "grown") as writer:
        for step, width in ((0, 8), (100, 16), (200, 16)):
            writer.add_structure("net", Classifier(width), image, step=step)
    with StructureWriter(folder / "wide") as writer:
        writer.add_structure("net", Classifier(32), image)
    broken = Classifier(8)
    broken.head = torch.nn.Linear(4, 10)
    with StructureWriter(folder / "broken") as writer, pytest.raises(RuntimeError, match="head"):
        writer.add_structure("net", broken, image)
    with SummaryWriter(str(folder / "traced")) as writer:
        writer.add_graph(Classifier(8), image)
    with TensorBoardServer(folder) as running:
        running.records(at_least=3)
        yield running


def test_a_model_beside_itself_is_two_of_its_steps(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=grown:structure/net&s=-")
    outline(tab)
    student = tab.frame.get_by_label("Student", exact=True)
    student.select_option(student.locator('optgroup[label="grown"] option').get_attribute("value"))
    head = tab.frame.locator(".outline-head")
    expect(head).to_contain_text("net · step 0", timeout=10_000)
    expect(head).to_contain_text("net · step 100")
    expect(tab.frame.get_by_role("button", name=re.compile("resized"))).to_be_visible()
    slider = tab.frame.get_by_label("Student step")
    expect(slider).to_have_attribute("aria-valuetext", "step 100, latest, changed here")
    slider.focus()
    tab.page.keyboard.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", "step 0")
    expect(tab.frame.get_by_role("button", name=re.compile("resized"))).to_have_count(0, timeout=10_000)


def test_two_runs_are_named_apart(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=wide:structure/net&s=grown:structure/net@100")
    outline(tab)
    head = tab.frame.locator(".outline-head")
    expect(head).to_contain_text("net · wide")
    expect(head).to_contain_text("net · grown")


def test_a_graph_of_add_graph_is_compared_with_a_structure(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=traced:__run_graph__&s=grown:structure/net@0")
    rows = outline(tab).get_by_role("row")
    for name in ("body", "head"):
        expect(rows.filter(has_text=re.compile(f"{name}.*{name}")).first).to_be_visible(timeout=10_000)
    expect(tab.frame.get_by_role("button", name=re.compile("only in student"))).to_have_count(0)


def test_a_pass_that_failed_is_shown_as_far_as_it_came(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=broken:structure/net&s=-")
    picture(tab)
    tab.expect_text("The forward pass raised RuntimeError")
    rows = outline(tab).get_by_role("row")
    expect(rows.filter(has_text=re.compile(r"⚠ head\s*Linear"))).to_be_visible()
    expect(rows.filter(has_text=re.compile(r"body\s*Sequential"))).not_to_contain_text("⚠")
    tab = open_tab(server.url, "graph_diff", "t=wide:structure/net&s=broken:structure/net")
    tab.expect_text("⚠ The student's forward pass raised RuntimeError in head")


def test_one_model_alone_is_exported_as_one_file(server: TensorBoardServer, open_tab: OpenTab, tmp_path: Path) -> None:
    tab = open_tab(server.url, "graph_diff", "t=wide:structure/net&s=-")
    picture(tab)
    tab.frame.get_by_role("button", name="Export what is shown").click()
    with tab.page.expect_download() as download:
        tab.frame.get_by_role("button", name="Report as one HTML file").click()
    report = tmp_path / "net.html"
    download.value.save_as(report)
    page = tab.page
    page.context.set_offline(True)
    page.goto(report.as_uri())
    expect(page.locator("main")).to_contain_text("net is a Classifier with 7 modules", timeout=20_000)
    expect(page.locator("canvas.graph")).to_have_attribute("aria-busy", "false", timeout=20_000)
    page.context.set_offline(False)


def test_where_a_dimension_comes_from(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=wide:structure/net&s=grown:structure/net@100&at=S:head")
    outline(tab)
    shown = details(tab)
    shown.get_by_role("button", name="10: where dimension 1 of the student's result comes from").click()
    expect(shown).to_contain_text("10: dimension 0 of parameter head.weight, so it is the same for every input")
    shown.get_by_role("button", name="2: where dimension 0 of the teacher's result comes from").click()
    expect(shown).to_contain_text("2: dimension 0 of input")
    # The way back to the input leads through the first convolution, and the picture shows it alone.
    expect(shown).to_contain_text("none of which changes it")


def test_the_details_say_which_adapter_makes_two_results_meet(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=wide:structure/net&s=grown:structure/net@100&at=S:body.0")
    outline(tab)
    shapes = details(tab).locator("section", has_text="Shapes")
    # A student of 16 channels is widened to the teacher's 32 by 16 x 32 weights.
    expect(shapes).to_contain_text("Conv1x1(16->32)", timeout=15_000)
    expect(shapes).to_contain_text("512 parameters")
    expect(shapes.get_by_role("button", name="Copy the adapter as PyTorch code")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_only_the_teacher_has_is_painted_so(server: TensorBoardServer, open_tab: OpenTab, theme: str) -> None:
    state = "t=wide:structure/net&s=grown:structure/net@100"
    tab = open_tab(server.url, "graph_diff", state)
    if theme == "dark":
        tab.page.evaluate("document.body.classList.add('dark-mode')")
    assert painted(picture(tab), DELETED_FILL[theme]) == 0
    # With a pin that takes the head's partner away the teacher's head stands alone.
    again = open_tab(server.url, "graph_diff", f'{state}&pins={{"head":null}}')
    again.page.reload()
    if theme == "dark":
        again.page.evaluate("document.body.classList.add('dark-mode')")
    canvas = picture(again)
    again.page.wait_for_timeout(500)
    # A card is at least 84 x 42 at scale 0.7; its text and border take some.
    assert painted(canvas, DELETED_FILL[theme]) > 500


def test_everything_is_reached_by_tab_and_shows_its_focus(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=wide:structure/net&s=grown:structure/net@100")
    picture(tab)
    tab.frame.get_by_label("Teacher", exact=True).focus()
    walked = [focused(tab.page)]
    for _ in range(60):
        tab.page.keyboard.press("Tab")
        name, is_visible = focused(tab.page)
        assert is_visible, f"{name} has the focus and does not show it"
        walked.append((name, is_visible))
        if name == "Details":
            break
    names = [name for name, _ in walked]
    wanted = (
        "Teacher",
        "Swap teacher and student",
        "Student",
        "Export what is shown",
        "Search nodes",
        "Show the outline",
    )
    for name in (*wanted, "Fit the graph into the window (f)", "Outline: teacher and student side by side", "Graph"):
        assert any(found.startswith(name) or name in found for found in names), (name, names)


def focused(page: Page) -> tuple[str, bool]:
    """Name of the element with the focus, and whether an outline or border marks it."""
    frame = next(frame for frame in page.frames if "name=structure_graph_diff" in frame.url)
    name, outlined = frame.evaluate(
        """() => {
          const element = document.activeElement;
          const style = getComputedStyle(element);
          const name = element.ariaLabel || element.ariaDescription || element.textContent || element.className;
          const marked = style.outlineStyle !== "none" || style.borderLeftColor === "rgb(232, 113, 10)";
          return [name.trim().slice(0, 80), element === document.body || marked];
        }"""
    )
    return str(name), bool(outlined)
