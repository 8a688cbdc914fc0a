"""The Attention tab where there are no probabilities to show: NaN, masked rows, rows that nobody recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from playwright.sync_api import Locator, expect

from tb_plugin_structure import StructureWriter
from tests.e2e.conftest import Tab
from tests.support.tensorboard_server import TensorBoardServer
from tests.unit.attention.capturing import Function

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    """A teacher whose query 1 of 4 sees no key, and a student whose second head of two is NaN."""
    folder = tmp_path_factory.mktemp("odd")
    seen = torch.ones(4, 4, dtype=torch.bool)
    seen[1] = False
    teacher = Function(lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=seen))
    student = Function(lambda q: F.scaled_dot_product_attention(q, q, q))
    query = torch.ones(1, 2, 4, 8)
    broken = query.clone()
    broken[:, 1] = float("nan")
    with (
        StructureWriter(folder / "kd") as writer,
        writer.record_attention({"teacher": teacher, "student": student}, step=0),
    ):
        teacher(query)
        student(broken)
    with TensorBoardServer(folder) as running:
        running.records(at_least=2, kind="attention")
        yield running


def colours(canvas: Locator, y: float) -> int:
    """How many colours a line of pixels has in its right half, `y` being a share of the height."""
    found: int = canvas.evaluate(
        """(canvas, y) => {
            const half = canvas.width >> 1;
            const line = canvas.getContext('2d').getImageData(half, Math.floor(y * canvas.height), half, 1).data;
            return new Set(new Uint32Array(line.buffer)).size;
        }""",
        y,
    )
    return found


def test_a_head_of_nan_is_hatched_and_said(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=head&th=0.1&sh=0.1")
    tab.expect_text("1 of 2 heads of the student hold NaN or infinity.")
    tab.expect_text("all 4 queries hold NaN or infinity; its statistics leave them out")
    view = tab.frame.locator(".matrix-view").nth(1)
    assert colours(view.locator("canvas").first, 0.5) > 1  # stripes
    view.press("ArrowDown")
    expect(tab.frame.locator(".tooltip")).to_contain_text("student: NaN or infinity")
    expect(tab.frame.locator(".row-marks")).to_contain_text("NaN or infinity")


def test_a_query_that_sees_no_key_is_marked(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention", "view=head&th=0.0&sh=0.0&q=1")
    tab.expect_text("1 of 4 queries see no key")
    view = tab.frame.locator(".matrix-view").first
    view.press("ArrowRight")
    expect(tab.frame.locator(".tooltip")).to_contain_text("teacher: every key is masked")
    expect(tab.frame.locator(".row-profile svg").first).to_contain_text("every key is masked")


def test_the_table_counts_them(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "attention")
    tab.frame.get_by_text("As a table").click()
    last = tab.frame.locator(".as-table tbody tr").last
    expect(last.locator("td").nth(-2)).to_have_text("4")


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    """A teacher with self-attention, a student with cross-attention alone, and one that ran on nothing."""
    folder = tmp_path_factory.mktemp("unlike")
    teacher, crossing = (Function(lambda q, k: F.scaled_dot_product_attention(q, k, k)) for _ in range(2))
    empty = Function(lambda q: (q @ q.mT).softmax(-1) @ q)
    query = torch.ones(1, 2, 4, 8)
    with (
        StructureWriter(folder / "kd") as writer,
        writer.record_attention({"teacher": teacher, "crossing": crossing, "empty": empty}, step=0),
    ):
        teacher(query, query)
        crossing(query, query[:, :, :3])
        empty(query[:, :, :0])
    with TensorBoardServer(folder) as running:
        running.records(at_least=3, kind="attention")
        yield running


def test_two_models_without_a_kind_in_common_are_told_so(unlike: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(unlike.url, "attention", "view=pair&t=kd:overview/teacher&s=kd:overview/crossing")
    tab.expect_text("share no kind of attention")
    assert "Comparing heads" not in tab.text()


def test_a_layer_without_a_map_says_why_in_every_view(unlike: TensorBoardServer, open_tab: OpenTab) -> None:
    address = "t=kd:overview/teacher&s=kd:overview/empty"
    tab = open_tab(unlike.url, "attention", address)
    tab.expect_text("not captured: it ran on a sequence of length 0")
    tab = open_tab(unlike.url, "attention", f"view=head&{address}")
    tab.frame.get_by_role("button", name="Head", exact=True).click()
    tab.expect_text("No attention of the student was captured; Sources says why.")
