"""Graph and audit table in the colours of what was measured, at any step."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tb_plugin_structure.cli.main import main
from tests.e2e.conftest import Tab
from tests.support.tensorboard_server import TensorBoardServer

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]
BY_GRADIENT = "colour=measured%3Agradient_norm"


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer "second" gets a gradient at step 1 and none but zeros at step 2; the teacher is frozen."""
    from torch import nn

    from tb_plugin_structure import Quantity, StructureMonitor, StructureWriter

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.third(self.second(self.first(x)))

    torch.manual_seed(0)
    teacher, student = Net().eval().requires_grad_(False), Net()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    folder = tmp_path_factory.mktemp("measured")
    with StructureWriter(folder / "kd") as writer:
        monitor = StructureMonitor(
            writer, {"teacher": teacher, "student": student}, optimizer=optimizer, every=1, record_every=100
        )
        for step in range(3):
            values = torch.randn(8, 4)
            with monitor.observe():
                loss = (student(values) - teacher(values)).square().mean()
                loss.backward()
            if step == 2:
                for parameter in student.second.parameters():
                    assert parameter.grad is not None
                    parameter.grad.zero_()
            optimizer.step()
            optimizer.zero_grad()
            similarity = Quantity("similarity", "to the teacher", scale="signed", label="similarity to teacher")
            monitor.measure(similarity, {"second": -0.5 * step}, model="student")
            monitor.step(loss)
    return folder


@pytest.fixture(scope="module")
def server(logdir: Path) -> Iterator[TensorBoardServer]:
    with TensorBoardServer(logdir) as running:
        running.records(at_least=4, kind="measurements")
        yield running


STUDENT = "t=kd%3Astructure%2Fstudent&s=-"


def row(tab: Tab, name: str) -> Locator:
    return tab.frame.get_by_role("row").filter(has_text=name)


def expect_step(tab: Tab, text: str) -> None:
    expect(tab.frame.locator(".measured-bar output")).to_have_text(text, timeout=30_000)


def colour_in(picture: bytes, share: float) -> tuple[int, int, int]:
    """The most frequent colour in the middle of a screenshot; `share` of its width and height."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    margins = (1 - share) / 2
    box = (
        int(image.width * margins),
        int(image.height * margins),
        max(int(image.width * (1 - margins)), int(image.width * margins) + 1),
        max(int(image.height * (1 - margins)), int(image.height * margins) + 1),
    )
    _, colour = max(image.crop(box).getcolors(1 << 24) or [])
    assert isinstance(colour, tuple)
    return colour[0], colour[1], colour[2]


def card(tab: Tab) -> tuple[int, int, int]:
    """The colour of the selected module's card, which is moved into the middle of the graph."""
    canvas = tab.frame.locator("canvas.graph")
    canvas.focus()
    tab.page.keyboard.press("z")
    tab.page.wait_for_timeout(600)  # the picture has moved
    return colour_in(canvas.screenshot(animations="disabled"), 0.04)


def swatch(tab: Tab, name: str) -> tuple[int, int, int]:
    """The colour beside a module's value in the outline."""
    return colour_in(row(tab, name).locator(".values i").first.screenshot(animations="disabled"), 0.3)


def distance(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    return float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True))) ** 0.5


def is_grey(colour: tuple[int, int, int]) -> bool:
    return max(colour) - min(colour) <= 12


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_layer_without_gradient_at_one_step_has_another_colour_there(
    server: TensorBoardServer, open_tab: OpenTab, page: Page, theme: str
) -> None:
    page.add_init_script(f"localStorage.setItem('_tb_global_settings', JSON.stringify({{theme: '{theme}'}}))")
    tab = open_tab(server.url, "graph_diff", f"{STUDENT}&{BY_GRADIENT}&mstep=1&at=T%3Asecond")
    expect_step(tab, "step 1")
    tab.frame.locator("canvas.graph").wait_for()
    colours = {1: (card(tab), swatch(tab, "second"), swatch(tab, "third"))}
    tab.frame.get_by_role("button", name="The step after").click()
    expect_step(tab, "step 2")
    colours[2] = (card(tab), swatch(tab, "second"), swatch(tab, "third"))
    for one, two in zip(colours[1][:2], colours[2][:2], strict=True):
        assert distance(one, two) > 25, colours
        # 0 lies beside the logarithmic scale: grey, with a sign of its own.
        assert not is_grey(one), colours
        assert is_grey(two), colours
    assert not is_grey(colours[2][2]), colours  # the layer beside it got a gradient
    expect(row(tab, "second").locator(".values")).to_have_text("0")
    expect(tab.frame.locator(".measured-legend")).to_contain_text("0 exactly 0")
    expect(tab.frame.locator(".measured-legend")).to_contain_text("logarithmic")
    expect(tab.frame.get_by_role("complementary")).to_contain_text(re.compile(r"gradient norm\s*0"))


def test_every_measured_quantity_can_be_chosen_and_the_choice_is_in_the_address(
    server: TensorBoardServer, open_tab: OpenTab
) -> None:
    tab = open_tab(server.url, "graph_diff")
    group = tab.frame.locator('optgroup[label="measured at a step"]')
    group.wait_for(state="attached", timeout=30_000)
    offered = group.locator("option").all_inner_texts()
    for label in (
        *("gradient norm", "weight norm", "weight std", "update ratio", "activation mean", "activation std"),
        *("zero fraction", "dead fraction", "output bytes", "forward time", "trained", "mode", "dtype"),
        *("output gradient norm", "similarity to teacher"),
    ):
        assert label in [text.strip() for text in offered], label
    tab.frame.get_by_label("colour", exact=False).first.select_option("measured:similarity")
    expect(row(tab, "second").locator(".values")).to_contain_text("−1")
    expect(tab.frame.locator(".measured-legend")).to_contain_text("about 0")
    tab.frame.get_by_label("Step of similarity to teacher").fill("0")
    expect_step(tab, "step 0")
    expect(tab.page).to_have_url(re.compile(r"colour=measured:similarity.*mstep=0|mstep=0.*colour=measured:similarity"))
    assert tab.barriers() == []


def test_a_step_that_was_not_recorded_shows_the_nearest_and_says_so(
    server: TensorBoardServer, open_tab: OpenTab
) -> None:
    tab = open_tab(server.url, "graph_diff", f"{BY_GRADIENT}&mstep=40")
    expect_step(tab, "step 2, the nearest to 40 that was recorded")
    tab = open_tab(server.url, "graph_diff", "colour=measured%3Anothing_like_it")
    tab.expect_text('"nothing_like_it" was not measured of these models')


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_audit_table_shows_and_colours_both_sides(
    server: TensorBoardServer, open_tab: OpenTab, page: Page, theme: str
) -> None:
    page.add_init_script(f"localStorage.setItem('_tb_global_settings', JSON.stringify({{theme: '{theme}'}}))")
    tab = open_tab(server.url, "shape_audit", "level=leaf")
    choice = tab.frame.get_by_label("colour by")
    choice.wait_for(timeout=30_000)
    assert "T gradient norm" not in tab.text()
    choice.select_option("gradient_norm")
    expect(tab.frame.get_by_role("columnheader", name="S gradient norm")).to_be_visible()
    cell = row(tab, "second").locator(".grid-cell[style*=background]")
    expect(cell).to_have_text("0")
    zero = colour_in(cell.screenshot(animations="disabled"), 0.3)
    tab.frame.get_by_label("Step of gradient norm").fill("1")
    expect_step(tab, "step 1")
    expect(cell).not_to_have_text("0")
    assert is_grey(zero)
    assert distance(zero, colour_in(cell.screenshot(animations="disabled"), 0.3)) > 25
    # Not coloured, only shown: the same columns stand in the chooser.
    choice.select_option("")
    expect(tab.frame.get_by_role("columnheader", name="S gradient norm")).not_to_be_visible()
    tab.frame.get_by_role("button", name="Columns ▾").click()
    tab.frame.get_by_label("S weight norm").check()
    expect(tab.frame.get_by_role("columnheader", name="S weight norm")).to_be_visible()
    expect(tab.frame.locator(".grid-cell[style*=background]")).to_have_count(0)
    assert tab.barriers() == []


@pytest.mark.parametrize("written_by", ["the tab", "the command line"])
def test_a_report_on_disk_has_the_colours_of_every_step(
    logdir: Path, server: TensorBoardServer, open_tab: OpenTab, page: Page, tmp_path: Path, written_by: str
) -> None:
    report = tmp_path / "report.html"
    if written_by == "the tab":
        tab = open_tab(server.url, "graph_diff", "t=kd%3Astructure%2Fteacher&s=kd%3Astructure%2Fstudent")
        tab.frame.locator("canvas.graph").wait_for()
        tab.frame.get_by_role("button", name="Export what is shown").click()
        with page.expect_download() as download:
            tab.frame.get_by_role("button", name="Report as one HTML file").click()
        download.value.save_as(report)
    else:
        sides = [f"{logdir}:{name}" for name in ("teacher", "student")]
        assert main(["export", *sides, "--out", str(report)]) == 0
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.startswith("http") else None)
    page.goto("about:blank")
    page.context.set_offline(True)
    page.goto(report.as_uri())
    second = page.get_by_role("row").filter(has_text="second")
    page.get_by_label("colour", exact=False).first.select_option("measured:gradient_norm")
    expect(page.locator(".measured-bar output")).to_have_text("step 2")
    expect(second.locator(".values > span").last).to_have_text("0")
    grey = colour_in(second.locator(".values i").last.screenshot(animations="disabled"), 0.3)
    assert is_grey(grey)
    page.get_by_role("button", name="The step before").click()
    expect(page.locator(".measured-bar output")).to_have_text("step 1")
    expect(second.locator(".values > span").last).not_to_have_text("0")
    assert distance(grey, colour_in(second.locator(".values i").last.screenshot(animations="disabled"), 0.3)) > 25
    # What else the server would be asked: verdicts, adapters, what the loss compared.
    page.get_by_label("colour", exact=False).first.select_option("shape verdict")
    expect(page.get_by_label("Legend: shape verdict")).to_be_visible()
    second.click()
    expect(page.get_by_role("complementary")).to_contain_text(re.compile("Shapes.*=", re.DOTALL))
    assert asked == []
