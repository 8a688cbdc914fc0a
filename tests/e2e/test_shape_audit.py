"""The Shape audit tab: finding, ordering and opening rows; ResNet-50 as teacher of ResNet-18."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Tab
from tests.support.tensorboard_server import TensorBoardServer

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]

PAIR = "t=resnet%3Astructure%2FResNet-50&s=resnet%3Astructure%2FResNet-18"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    import log_pairs

    folder = tmp_path_factory.mktemp("audit")
    log_pairs.log_resnets(folder / "resnet")
    with TensorBoardServer(folder) as running:
        running.records(at_least=2)
        yield running


def rows(tab: Tab) -> list[str]:
    """Texts of the rows in view, top to bottom, group headings left out."""
    expect(tab.frame.locator(".grid-body .grid-row:not([hidden])").first).to_be_visible(timeout=30_000)
    found: list[list[str]] = tab.frame.locator(".grid").evaluate(
        """grid => [...grid.querySelectorAll('.grid-body .grid-row:not([hidden], .is-group)')]
            .sort((a, b) => a.dataset.index - b.dataset.index)
            .map(row => [...row.children].map(cell => cell.textContent))"""
    )
    return [" | ".join(cells) for cells in found]


def test_stages_and_blocks_first_leaves_on_request(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    paths = [row.split(" ")[0].lstrip("▸▾") for row in rows(tab)]
    assert "layer1.2" in paths
    assert not any(path.endswith("conv1") and path != "conv1" for path in paths)
    tab.frame.get_by_role("button", name="leaves").click()
    expect(tab.frame.locator(".grid")).to_contain_text("layer1.0.conv1")
    expect(tab.page).to_have_url(re.compile(re.escape("level=leaf")))


def test_the_order_is_in_the_address(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    header = tab.frame.locator('[data-column="adapter_parameters"]')
    header.click(timeout=30_000)
    assert "Conv1x1(512->2048)" in rows(tab)[0]
    expect(tab.page).to_have_url(re.compile(re.escape("sort=adapter_parameters:down")))
    header.click()
    assert "Conv1x1(64->256)" in rows(tab)[0]


def test_a_link_shows_the_same_rows(server: TensorBoardServer, open_tab: OpenTab) -> None:
    state = f"{PAIR}&verdict=unmatched&filter=%7B%22teacher%22%3A%22layer3%22%7D"
    tab = open_tab(server.url, "shape_audit", state)
    shown = rows(tab)
    assert shown
    assert all("layer3." in row and "unmatched" in row for row in shown)
    tab.frame.get_by_role("button", name="show all").click()
    expect(tab.frame.locator(".grid")).to_contain_text("conv1")


def test_chips_show_as_many_rows_as_they_and_the_sentence_say(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    expect(tab.frame.locator("body")).to_contain_text(
        "Of 18 paired stages and blocks 5 match as they are, 13 need an adapter; 8 only in the teacher", timeout=30_000
    )
    for word, count in (("match", 5), ("adapt", 13), ("unmatched", 8)):
        chip = tab.frame.get_by_role("button", name=re.compile(rf"\b{count} {word}"))
        chip.click()
        expect(tab.frame.locator(".row-count")).to_contain_text(f"{count} of 183 rows")
        chip.click()


@pytest.mark.parametrize("width", [1024, 1280])
def test_the_ratios_are_in_view_in_a_narrow_window_with_findings(
    server: TensorBoardServer, open_tab: OpenTab, width: int
) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    tab.page.set_viewport_size({"width": width, "height": 800})
    expect(tab.frame.get_by_role("region", name="Findings")).to_be_visible(timeout=30_000)
    expect(tab.frame.locator(".grid-body .grid-row").first).to_be_visible()
    sizes = tab.frame.locator(".grid").evaluate("grid => [grid.clientWidth, grid.scrollWidth]")
    assert sizes[0] == sizes[1], sizes
    expect(tab.frame.get_by_role("columnheader", name="MACs S÷T")).to_be_in_viewport(ratio=1)


def test_a_chip_is_a_filter(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    tab.frame.locator(".chip", has_text="adapt").click(timeout=30_000)
    expect(tab.frame.locator(".grid")).not_to_contain_text("unmatched")
    assert all("adapt" in row for row in rows(tab))


def test_the_keyboard_opens_a_row_with_its_dimensions_and_adapter(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", f"{PAIR}&at=S%3Alayer1")
    grid = tab.frame.get_by_role("grid")
    expect(tab.frame.locator(".is-selected")).to_contain_text("layer1", timeout=30_000)
    grid.press("Enter")
    drawer = tab.frame.get_by_label("Details of the selected row")
    expect(drawer).to_contain_text("16.4 k parameters")
    expect(drawer.locator("pre")).to_have_text("nn.Conv2d(64, 256, kernel_size=1, bias=False)")
    expect(drawer.locator("tr.differs")).to_have_count(1)
    expect(drawer.locator("tr.differs")).to_contain_text("channels")
    grid.press("ArrowDown")
    expect(drawer).to_contain_text("layer1.0")
    grid.press("Escape")
    expect(drawer).to_have_count(0)


def test_a_finding_leads_to_its_row(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    # ReLU works in place on what the batch norm returned.
    tab.frame.locator(".finding", has_text="change in place after they return").first.click(timeout=30_000)
    expect(tab.frame.locator(".explanation").first).to_contain_text("Fix:")
    expect(tab.frame.locator(".grid-row.is-selected")).to_contain_text("bn1")


def test_the_same_place_in_the_graph(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    # The stage's row names the block as well, as the cause of its shape.
    tab.frame.locator(".grid-row", has_text=re.compile(r"layer2\.3\s*Bottleneck")).click(timeout=30_000)
    tab.frame.get_by_role("grid").press("1")
    expect(tab.page).to_have_url(re.compile(re.escape("p.structure_graph_diff.at=S:layer2.1")))


def test_one_model_alone_shows_its_operators(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", "t=resnet%3Astructure%2FResNet-50&s=-")
    tab.expect_text("ResNet ran")
    first = rows(tab)[0]
    assert first.startswith("conv2d | conv1 | 1×3×224×224 | 1×64×112×112 | float32 | meta | 118 M")
    tab.frame.get_by_role("button", name="where the shape changes").click()
    expect(tab.frame.locator(".grid")).not_to_contain_text("relu")


def test_scrolling_goes_as_far_as_asked_and_draws_only_the_rows_that_come(
    server: TensorBoardServer, open_tab: OpenTab
) -> None:
    tab = open_tab(server.url, "shape_audit", "t=resnet%3Astructure%2FResNet-50&s=-")
    expect(tab.frame.locator(".grid-body .grid-row").nth(20)).to_be_visible(timeout=30_000)
    scrolled = tab.frame.locator(".grid").evaluate(
        """async grid => {
          const seen = [];
          let drawn = 0;
          const observer = new MutationObserver(changes => { drawn += changes.length; });
          observer.observe(grid, { subtree: true, attributeFilter: ['aria-rowindex'] });
          for (let notch = 0; notch < 10; notch++) {
            grid.scrollTop += 112;
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            seen.push(grid.scrollTop);
          }
          await new Promise(done => setTimeout(done, 300));
          const head = grid.querySelector('.grid-head').getBoundingClientRect();
          const below = document.elementFromPoint(head.left + 80, head.bottom + 14).closest('.grid-row');
          return { seen, drawn, top: Number(below.dataset.index) };
        }"""
    )
    assert scrolled["seen"] == [112 * notch for notch in range(1, 11)]
    assert scrolled["top"] == 40  # 1,120 pixels of 28 each
    # Ten notches bring forty rows; only the first few were drawn beyond the edge already.
    assert scrolled["drawn"] <= 41


def test_columns_can_be_chosen(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", PAIR)
    tab.frame.get_by_role("button", name="Columns").click(timeout=30_000)
    tab.frame.get_by_label("T dtype").check()
    expect(tab.frame.get_by_role("columnheader", name="T dtype")).to_be_visible()
    expect(tab.page).to_have_url(re.compile(re.escape("teacher_dtype")))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_barrier_for_anyone(server: TensorBoardServer, open_tab: OpenTab, theme: str) -> None:
    tab = open_tab(server.url, "shape_audit", f"{PAIR}&level=leaf")
    rows(tab)
    if theme == "dark":
        tab.page.evaluate("document.body.classList.add('dark-mode')")
    assert tab.barriers() == [], "the table"
    tab.frame.get_by_role("button", name="Columns").click()
    assert tab.barriers() == [], "the column chooser"
    tab.frame.locator(".finding").first.click()
    expect(tab.frame.get_by_label("Details of the selected row")).to_be_visible()
    assert tab.barriers() == [], "a finding and its row in full"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_barrier_in_one_models_table(server: TensorBoardServer, open_tab: OpenTab, theme: str) -> None:
    tab = open_tab(server.url, "shape_audit", "t=resnet%3Astructure%2FResNet-50&s=-&operator_drawer=1&at=T%3Aconv1")
    tab.expect_text("new storage")
    if theme == "dark":
        tab.page.evaluate("document.body.classList.add('dark-mode')")
    assert tab.barriers() == []


def test_the_way_to_the_graph_and_back(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", f"{PAIR}&at=S%3Alayer2.1&drawer=1")
    drawer = tab.frame.get_by_label("Details of the selected row")
    drawer.get_by_role("button", name="Graph").click(timeout=30_000)
    graph = Tab(tab.page, "graph_diff")
    tree = graph.frame.get_by_role("treegrid")
    expect(tree.locator('[role=row][aria-selected="true"]')).to_contain_text("layer2.1", timeout=30_000)
    tree.press("2")
    expect(tab.frame.locator(".grid-row.is-selected")).to_contain_text("layer2.1", timeout=30_000)


def test_rows_are_copied_and_the_report_is_downloaded(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "shape_audit", f"{PAIR}&level=stage")
    rows(tab)
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    export = tab.frame.get_by_role("button", name="Export")
    export.click()
    tab.frame.get_by_text("Copy these rows as TSV").click()
    lines = tab.page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].split("\t")[:4] == ["T module", "T shape", "S module", "S shape"]
    assert any(
        line.startswith("layer1 Sequential\t1×256×56×56\tlayer1 Sequential\t1×64×56×56\tadapt") for line in lines
    )
    for kind, beginning in (
        ("JSON", '{\n "summary"'),
        ("CSV", "pair,teacher,student"),
        ("Markdown", "# Shape audit: "),
    ):
        export.click()
        with tab.page.expect_download() as download:
            tab.frame.get_by_text(f"Download the report as {kind}").click()
        assert download.value.path().read_text().startswith(beginning)
