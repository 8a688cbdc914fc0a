"""Deciding in the picture: a line that pairs two modules, a plan that gets into the run, fingers on the graph."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tb_plugin_structure.cli.main import main
from tests.e2e.conftest import Tab
from tests.e2e.graph_tab import OpenTab, address, picture
from tests.support.tensorboard_server import TensorBoardServer

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

pytestmark = pytest.mark.e2e

RESNETS = "t=resnet:structure/ResNet-50&s=resnet:structure/ResNet-18"
# Shares of the picture's width between which the two drawings have their cards.
LEFT, RIGHT = (0.36, 0.32, 0.4), (0.64, 0.6, 0.68, 0.56, 0.72)


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import log_pairs as example

    folder = tmp_path_factory.mktemp("by-hand")
    example.log_resnets(folder / "resnet")
    return folder


@pytest.fixture(scope="module")
def server(logdir: Path) -> Iterator[TensorBoardServer]:
    with TensorBoardServer(logdir) as running:
        running.records(at_least=2)
        yield running


def middle_of(tab: Tab, name: str, columns: tuple[float, ...]) -> tuple[float, float]:
    """Where a card is drawn, in the page: its hint, which names it, appears in one of the columns of the picture."""
    canvas = picture(tab)
    box = canvas.bounding_box()
    assert box is not None
    hint = tab.frame.get_by_role("tooltip")
    for x in (box["width"] * column for column in columns):
        found = [y for y in range(20, int(box["height"] * 0.6), 8) if hovered(canvas, hint, x, y, name)]
        if found:
            return box["x"] + x, box["y"] + (found[0] + found[-1]) / 2
    raise AssertionError(f"{name} is not in the picture")


def hovered(canvas: Locator, hint: Locator, x: float, y: float, name: str) -> bool:
    canvas.hover(position={"x": x, "y": y})
    return hint.is_visible() and re.match(rf"[TS]\s+{re.escape(name)}\b", hint.inner_text()) is not None


def test_a_line_from_a_grip_to_the_other_model_pairs_the_two(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", f"{RESNETS}&view=graph&arrange=side by side&at=T:bn1")
    canvas = picture(tab)
    page = tab.page
    # The student's drawing is as wide as the teacher's, so both columns are known from the picture alone.
    teacher_x, y = middle_of(tab, "bn1", LEFT)
    student_x, _ = middle_of(tab, "bn1", RIGHT)
    target_x, target_y = middle_of(tab, "relu", RIGHT)
    page.mouse.move(teacher_x, y)
    # The grip lies on the edge that faces the other model.
    edge = teacher_x
    while tab.frame.get_by_role("tooltip").inner_text() != "Draw a line to the part that this shall be paired with":
        edge += 2
        assert edge < student_x, "there is no grip"
        page.mouse.move(edge, y)
    page.mouse.down()
    page.mouse.move((edge + student_x) / 2, (y + target_y) / 2, steps=4)
    page.mouse.move(target_x, target_y, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile("pins="), timeout=10_000)
    assert '{"relu":"bn1"}' in address(tab)
    page.keyboard.press("Control+z")
    expect(page).not_to_have_url(re.compile("pins="), timeout=10_000)
    expect(canvas).to_have_attribute("aria-busy", "false", timeout=10_000)


def test_a_plan_is_written_into_the_run_and_the_tabs_start_from_it(
    server: TensorBoardServer, logdir: Path, open_tab: OpenTab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pins = '{"layer1.0":"layer1.1"}'
    tab = open_tab(server.url, "graph_diff", f"{RESNETS}&pins={pins}")
    picture(tab)
    tab.frame.get_by_role("button", name="Export what is shown").click()
    tab.frame.get_by_role("button", name="Write pins and policies into the run").click()
    dialog = tab.frame.get_by_role("dialog")
    expect(dialog).to_contain_text(
        'writer.add_plan("ResNet-50", "ResNet-18", policy="copy", pins={"layer1.0": "layer1.1"})'
    )
    command = dialog.locator("code").first.inner_text()
    with tab.page.expect_download() as download:
        dialog.get_by_role("button", name=re.compile("^Save ")).click()
    download.value.save_as(tmp_path / download.value.suggested_filename)
    program, verb, file, option, run = shlex.split(command)
    assert (program, verb, option) == ("tb-structure", "plan", "--logdir")
    assert main([verb, str(tmp_path / file), option, run.replace("LOGDIR", str(logdir))]) == 0
    assert "wrote 1 pins for ResNet-50 and ResNet-18" in capsys.readouterr().out

    listing = server.records(at_least=1, kind="plans")
    assert listing["plans"][0]["steps"][0]["pins"] == json.loads(pins)
    again = open_tab(server.url, "graph_diff", f"{RESNETS}&at=S:layer1.0")
    tab.page.reload()
    expect(again.frame.locator('[role=row][aria-selected="true"]')).to_contain_text("layer1.1", timeout=30_000)
    assert "pins=" not in address(again)


def test_fingers_move_zoom_and_choose(server: TensorBoardServer, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, has_touch=True)
    page = context.new_page()
    state = f"{RESNETS}&view=graph&arrange=merged"
    page.goto(
        f"{server.url}/#structure_graph_diff&" + "&".join(f"p.structure_graph_diff.{k}" for k in state.split("&"))
    )
    tab = Tab(page, "graph_diff")
    canvas = picture(tab)
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        session.send(
            "Input.dispatchTouchEvent",
            {"type": kind, "touchPoints": [{"x": px, "y": py, "id": index} for index, (px, py) in enumerate(points)]},
        )

    def shot() -> bytes:
        page.wait_for_timeout(300)
        return canvas.screenshot()

    start = shot()
    touch("touchStart", (x, y))
    for step in range(1, 6):
        touch("touchMove", (x, y - 20 * step))
    touch("touchEnd")
    moved = shot()
    assert moved != start, "one finger moves the picture"
    touch("touchStart", (x - 40, y), (x + 40, y))
    for step in range(1, 6):
        touch("touchMove", (x - 40 - 16 * step, y), (x + 40 + 16 * step, y))
    touch("touchEnd")
    assert shot() != moved, "two fingers zoom"
    expect(tab.frame.get_by_role("complementary")).to_contain_text("Nothing selected")
    page.touchscreen.tap(x, y)
    expect(tab.frame.get_by_role("complementary")).not_to_contain_text("Nothing selected")
    context.close()
