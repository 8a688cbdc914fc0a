"""The Attention tab on maps that are known cell by cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, expect

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tests.e2e.conftest import Tab
from tests.support.small_records import small_attention
from tests.support.tensorboard_server import TensorBoardServer

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    """Two models, two steps: head 0 looks at itself, head 1 at the first of three keys; head 1 is kept in full."""
    folder = tmp_path_factory.mktemp("attention")
    run = event_file.OwnEventFile(folder / "kd")
    for step in (0, 10):
        for model in ("teacher", "student"):
            overview, detail = small_attention(model)
            for plugin, tag, blobs in (
                (names.ATTENTION_OVERVIEW_PLUGIN, names.attention_overview_tag(model), overview.encode()),
                (names.ATTENTION_DETAIL_PLUGIN, names.attention_detail_tag(model, "attention"), detail),
            ):
                run.add_event(event_file.record_event(plugin, tag, blobs, step))
    run.close()
    with TensorBoardServer(folder) as running:
        running.records(at_least=2, kind="attention")
        yield running


def brightness(canvas: Locator, x: float, y: float) -> float:
    """Mean of red, green and blue at a point given in CSS pixels of the canvas."""
    value: float = canvas.evaluate(
        """(canvas, [x, y]) => {
            const scale = canvas.width / canvas.clientWidth;
            const [r, g, b] = canvas.getContext('2d').getImageData(x * scale, y * scale, 1, 1).data;
            return (r + g + b) / 3;
        }""",
        [x, y],
    )
    return value


def test_thumbnails_show_the_maps(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention")
    canvas = tab.frame.locator(".sheet canvas").first
    canvas.wait_for(timeout=30_000)
    height = canvas.evaluate("canvas => canvas.clientHeight")
    size, margin = height - 2, 34  # one layer: a thumbnail, then a gap of two pixels
    cell = size / 3

    def thumbnail(head: int) -> list[list[bool]]:
        left = margin + head * (size + 2)
        return [
            [brightness(canvas, left + (column + 0.5) * cell, (row + 0.5) * cell) > 120 for column in range(3)]
            for row in range(3)
        ]

    assert thumbnail(0) == [[True, False, False], [False, True, False], [False, False, True]]
    assert thumbnail(1) == [[True, False, False]] * 3


def test_equal_models_are_at_distance_zero(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=layers")
    tab.expect_text("the student looks 0.00 away from the teacher")
    expect(tab.frame.locator(".distance.paired")).to_have_text("0.00")


def test_a_cell_is_read_exactly_by_pointer_and_by_keyboard(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=head&th=0.1&sh=0.1")
    tab.expect_text("full resolution")
    view = tab.frame.locator(".matrix-view").first
    view.press("ArrowDown")
    tooltip = tab.frame.locator(".tooltip")
    expect(tooltip).to_contain_text("teacher: 1.00000")
    expect(tooltip).to_contain_text("query 1 “b”")
    expect(tooltip).to_contain_text("key 0 “a”")
    view.press("ArrowRight")
    expect(tooltip).to_contain_text("teacher: 0.00000")
    view.press("Enter")
    tab.expect_text("Query 1 “b”")
    expect(tab.page).to_have_url(re.compile(re.escape("p.structure_attention.q=1")))


def test_a_head_that_was_not_kept_in_full_says_so(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=head&th=0.0&sh=0.0")
    tab.expect_text("8-bit overview")


def test_arrow_keys_choose_heads_and_the_address_follows(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "th=0.0&sh=0.0")
    sheet = tab.frame.locator(".sheet").first
    sheet.wait_for(timeout=30_000)
    sheet.press("ArrowRight")
    expect(tab.frame.locator(".chosen-heads")).to_contain_text("T layer 0 head 1")
    # The matched head of the student follows.
    expect(tab.frame.locator(".chosen-heads")).to_contain_text("S layer 0 head 1")
    expect(tab.page).to_have_url(re.compile(re.escape("p.structure_attention.th=0.1")))
    sheet.press("Enter")
    tab.expect_text("Query 0 “a”")


def test_steps_move_for_both_models_and_one_can_be_subtracted(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "base=0")
    tab.expect_text("change of probability")
    # Nothing changed between the two steps: the map is white, zero, everywhere.
    canvas = tab.frame.locator(".sheet canvas").first
    assert brightness(canvas, 50, 10) > 240
    tab.frame.get_by_label("Step of both models").press("ArrowLeft")
    tab.expect_text("At step 0 the student looks")


def test_play_runs_from_the_first_step_to_the_last(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention")
    tab.expect_text("At step 10")
    tab.frame.locator(".sheet").first.press(" ")
    tab.expect_text("At step 0")
    tab.expect_text("At step 10")
    expect(tab.frame.get_by_label("Play through the steps (Space)")).to_be_visible()


def test_sources_say_how_each_map_was_obtained(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=sources")
    tab.expect_text("softmax that a matrix product read, before dropout")
    tab.expect_text("heads 1")


def test_every_head_is_in_a_table_as_well(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention")
    tab.frame.get_by_text("As a table").click(timeout=30_000)
    rows = tab.frame.locator(".as-table tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("1.000")
