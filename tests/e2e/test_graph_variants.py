"""Several passes of one model, chosen in the pickers of the Graph diff: the tab says what each of them ran alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from torch import Tensor, nn

from tb_plugin_structure import StructureWriter
from tb_plugin_structure.cli.main import main
from tests.e2e.conftest import Tab
from tests.support.ranks import run as run_ranks
from tests.support.tensorboard_server import TensorBoardServer

pytestmark = pytest.mark.e2e

OpenTab = Callable[..., Tab]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(self.linear(x).relu())


class Network(nn.Module):
    """Dropout and an auxiliary head in training mode, a softmax in evaluation mode, an extra block for long inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.long = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        self.auxiliary = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor] | Tensor:
        for block in self.blocks:
            x = block(x)
        if len(x) > 4:
            x = self.long(x)
        if self.training:
            return self.head(x), self.auxiliary(x)
        return self.head(x).softmax(-1)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("variants")
    model = Network()
    with StructureWriter(folder / "kd") as writer:
        writer.add_structure("student", model.train(), (torch.ones(2, 8),))
        writer.add_structure("student", model.eval(), (torch.ones(2, 8),), variant="eval")
        writer.add_structure("student", model.eval(), (torch.ones(6, 8),), variant="long")
    for process in run_ranks(["every_rank", "tensor_parallel"], folder):
        assert process.returncode == 0, process.stderr
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TensorBoardServer]:
    with TensorBoardServer(folder) as running:
        running.records(at_least=5)
        yield running


def picker(tab: Tab, side: str) -> Locator:
    tab.frame.get_by_role("treegrid").wait_for(timeout=30_000)
    return tab.frame.get_by_label(side, exact=True)


def passes(tab: Tab) -> Locator:
    return tab.frame.get_by_role("region", name="Two passes of one model")


def test_train_and_eval_are_chosen_and_compared(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=kd:structure/student&s=-")
    picker(tab, "Student").select_option(label="student / eval · Network")
    listed = passes(tab)
    expect(listed).to_contain_text(
        "main and eval: 1 call and 3 operators only in main, 1 operator only in eval", timeout=20_000
    )
    lines = listed.get_by_role("listitem")
    expect(lines.filter(has_text="only in main: dropout in blocks.#.drop, 3 times")).to_have_count(1)
    expect(lines.filter(has_text=re.compile("only in main: auxiliary, Linear"))).to_have_count(1)
    expect(lines.filter(has_text="only in eval: softmax in the model")).to_have_count(1)
    expect(lines.filter(has_text="changed: the model, training True -> False, all modules")).to_have_count(1)
    # A line leads to its place: the details are those of the head that ran in training only.
    lines.filter(has_text="auxiliary").first.get_by_role("button").click()
    details = tab.frame.get_by_role("complementary")
    expect(details).to_contain_text("only in teacher")
    expect(details.get_by_role("heading", name=re.compile("auxiliary"))).to_be_visible()


def test_another_branch_is_found_and_the_order_of_sides_is_kept(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=kd:structure/student/eval&s=kd:structure/student/long")
    listed = passes(tab)
    expect(listed).to_contain_text("only in long: long, Linear", timeout=20_000)
    expect(listed).not_to_contain_text("only in eval:")
    head = tab.frame.locator(".outline-head")
    expect(head).to_contain_text("student · eval")
    expect(head).to_contain_text("student · long")


def test_two_ranks_of_a_real_process_group_are_compared(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=all/rank0:structure/student/rank0&s=-")
    picker(tab, "Student").select_option(label="student / rank1 · Branching")
    expect(passes(tab)).to_contain_text("rank0 and rank1: 1 call only in rank1", timeout=20_000)
    expect(passes(tab)).to_contain_text("only in rank1: extra, Linear")


def test_placements_and_local_shapes_of_a_sharded_layer_are_shown(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=tensor parallel:structure/student&s=-&at=T:0")
    details = tab.frame.get_by_role("complementary")
    # Columns of a layer from 4 to 6 over two ranks: each has three of them, and of its result.
    expect(details).to_contain_text("6×4 float32, here 3×4: Shard(dim=0) over 2 (ranks)", timeout=30_000)
    expect(details).to_contain_text("5×6 float32, here 5×3: Shard(dim=1) over 2 (ranks)")


def test_two_models_are_not_taken_for_passes_of_one(server: TensorBoardServer, open_tab: OpenTab) -> None:
    tab = open_tab(server.url, "graph_diff", "t=all/rank0:structure/student/rank0&s=kd:structure/student")
    expect(tab.frame.get_by_role("complementary")).to_contain_text("What changed", timeout=20_000)
    expect(passes(tab)).to_have_count(0)


@pytest.mark.usefixtures("open_tab")
def test_a_report_on_disk_says_it_too(folder: Path, tmp_path: Path, page: Page) -> None:
    report = tmp_path / "diff.html"
    assert main(["export", f"{folder}/kd:student", f"{folder}/kd:student/eval", "--out", str(report)]) == 0
    page.context.set_offline(True)
    page.goto(report.as_uri())
    listed = page.get_by_role("region", name="Two passes of one model")
    expect(listed).to_contain_text("only in eval: softmax in the model", timeout=20_000)
