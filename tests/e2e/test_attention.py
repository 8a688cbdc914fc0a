"""The Attention tab on maps that are known cell by cell."""

from __future__ import annotations

import re
import xml.dom.minidom
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from playwright.sync_api import Locator, Page, Route, expect

from tb_plugin_structure import StructureWriter, event_file
from tb_plugin_structure.records import names
from tests.e2e.conftest import Tab
from tests.support.small_records import small_attention
from tests.support.tensorboard_server import TensorBoardServer
from tests.unit.attention.capturing import Function

AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"

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


def test_a_head_chosen_before_the_models_were_compared_takes_its_match_along(
    server: TensorBoardServer, open_tab: OpenTab, page: Page
) -> None:
    held: list[Route] = []
    page.route("**/attention/comparison**", lambda route: held.append(route))
    tab = open_tab(server.url, "attention", "th=0.0&sh=0.0")
    tab.frame.locator(".sheet").nth(1).wait_for(timeout=30_000)
    tab.frame.locator(".sheet").first.press("ArrowRight")
    chosen = tab.frame.locator(".chosen-heads")
    expect(chosen).to_contain_text("T layer 0 head 1")
    expect(chosen).to_contain_text("S layer 0 head 0")
    for route in held:
        route.continue_()
    expect(chosen).to_contain_text("S layer 0 head 1")


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


VIEWS = ("overview", "layers", "pair", "head", "image", "trends", "sources")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_barrier_for_anyone(server: TensorBoardServer, open_tab: OpenTab, theme: str) -> None:
    if not AXE.is_file():
        pytest.fail("axe-core is not installed; run `npm ci` in frontend/")
    tab = open_tab(server.url, "attention", "th=0.1&sh=0.1")
    tab.expect_text("the student looks")
    if theme == "dark":
        tab.page.evaluate("document.body.classList.add('dark-mode')")
    frame = next(frame for frame in tab.page.frames if "plugin_entry" in frame.url and "attention" in frame.url)
    frame.evaluate(AXE.read_text())
    barriers = []
    for view in VIEWS:
        tab.frame.get_by_role("group", name="View").get_by_role("button").nth(VIEWS.index(view)).click()
        tab.page.wait_for_timeout(300)
        found = frame.evaluate("axe.run(document).then(result => result.violations)")
        barriers += [
            (view, item["id"], item["nodes"][0]["html"]) for item in found if item["impact"] in ("serious", "critical")
        ]
    assert not barriers


def test_matched_heads_have_their_divergence_over_steps(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=pair")
    row = tab.frame.locator(".pairs tbody tr")
    expect(row).to_have_count(2, timeout=30_000)
    expect(row.first).to_contain_text("JS 0.0000 bits")
    expect(tab.frame.locator(".sparkline").first).to_have_attribute(
        "aria-label", re.compile("over steps: step 0 0.00, step 10 0.00")
    )


def test_only_the_largest_probabilities_up_to_a_share_of_the_mass(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=head&th=0.1&sh=0.1&mass=50")
    choice = tab.frame.locator("label", has_text="of the mass").locator("select")
    expect(choice).to_have_value("50", timeout=30_000)
    choice.select_option("90")
    expect(tab.page).to_have_url(re.compile(re.escape("p.structure_attention.mass=90")))


def test_the_view_is_exported_for_papers_and_for_numpy(
    server: TensorBoardServer, open_tab: OpenTab, tmp_path: Path
) -> None:
    tab = open_tab(server.url, "attention", "view=head&th=0.1&sh=0.1")
    tab.expect_text("full resolution")
    files = {}
    for label, name in (
        ("SVG", "view.svg"),
        ("PNG", "view.png"),
        ("NPZ", "all.npz"),
        ("teacher's head as CSV", "t.csv"),
    ):
        tab.frame.get_by_role("button", name="Export what is shown").click()
        with tab.page.expect_download() as download:
            tab.frame.get_by_role("button", name=re.compile(label)).click()
        files[name] = tmp_path / name
        download.value.save_as(files[name])
    drawing = files["view.svg"].read_text()
    xml.dom.minidom.parseString(drawing)
    assert "data:image/png;base64" in drawing
    assert ">probability</text>" in drawing
    assert drawing.count(">head 1</text>") == 2  # what the selects hold
    assert files["view.png"].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with np.load(files["all.npz"]) as arrays:
        np.testing.assert_array_equal(arrays["teacher_head"], np.eye(3)[[0, 0, 0]])
        assert arrays["student_layer0_maximum_plane"].shape == (2, 3, 3)
        np.testing.assert_allclose(arrays["teacher_layer0_sink_mass"], [1 / 3, 1.0])
    assert files["t.csv"].read_text().splitlines()[1] == "a,1,0,0"


@pytest.fixture(scope="module")
def long_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    """A causal attention over 2,000 positions; head 0 is kept as query and key."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 2, 2000, 16, generator=generator) for _ in range(2))
    model = Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    folder = tmp_path_factory.mktemp("long")
    labels = [f"t{position}" for position in range(2000)]
    labels[1500] = "<script>alert(1)</script>"
    with (
        StructureWriter(folder) as writer,
        writer.record_attention({"teacher": model}, step=0, tokens={"teacher": labels}),
    ):
        model(q, k, k)
    with TensorBoardServer(folder) as running:
        running.records(at_least=1, kind="attention")
        yield running


def test_a_long_head_is_read_in_parts_and_is_exact_when_zoomed(
    long_server: TensorBoardServer, open_tab: OpenTab
) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 2, 2000, 16, generator=generator) for _ in range(2))
    scores = (q[0, 0, 1500] @ k[0, 0, :1501].T / 4).double()
    expected = torch.softmax(scores, 0)
    tab = open_tab(long_server.url, "attention", "view=head&th=0.0&q=1500&zoom=1490,1495,20,20")
    tab.expect_text("full resolution, from query and key")
    tab.expect_text("“<script>alert(1)</script>”")
    view = tab.frame.locator(".matrix-view").first
    tooltip = tab.frame.locator(".tooltip")
    # From the query's row and the first key to the zoomed part, then a pixel of it.
    box = view.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + 250, box["y"] + 250)
    expect(tooltip).to_contain_text(re.compile(r"query 1\d\d\d"))
    text = tooltip.inner_text()
    assert "largest of the block" not in text
    found = re.search(r"teacher: ([\d.e-]+)\nquery (\d+) .*\nkey (\d+)", text)
    assert found is not None
    row, column = int(found[2]), int(found[3])
    truth = torch.softmax((q[0, 0, row] @ k[0, 0, : row + 1].T / 4).double(), 0)
    assert float(found[1]) == pytest.approx(float(truth[column]) if column <= row else 0.0, abs=1e-3)
    # The row of the chosen query is exact as well.
    table = tab.frame.locator(".largest-keys tbody tr").first
    expect(table.locator("td").nth(0)).to_have_text(f"t{int(expected.argmax())}")
    assert float(table.locator("td").nth(1).inner_text()) == pytest.approx(float(expected.max()), abs=1e-3)
