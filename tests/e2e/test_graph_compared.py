"""A recorded training step in the Graph diff: which features its loss compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from tb_plugin_structure import StructureWriter
from tests.e2e.conftest import Tab
from tests.support.tensorboard_server import TensorBoardServer
from tests.unit.recorded_steps.test_compared_features import Network, X

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp("compared")
    teacher, student, adapter = Network(8), Network(6), torch.nn.Linear(6, 8)
    with StructureWriter(folder / "kd") as writer:
        for step in (0, 10):  # the structures are written once, what ran between them at each step
            with writer.record_step({"teacher": teacher, "student": student}, step=step):
                with torch.no_grad():
                    given = teacher(X)
                F.mse_loss(adapter(student(X)[1]), given[2]).backward()
    with TensorBoardServer(folder) as running:
        running.records(at_least=2)
        yield running


def test_the_pair_that_the_loss_compared_is_listed_and_leads_to_its_place(
    server: TensorBoardServer, open_tab: Callable[..., Tab]
) -> None:
    tab = open_tab(server.url, "graph_diff", "t=kd:structure/teacher&s=kd:structure/student")
    listed = tab.frame.get_by_role("region", name="Compared in the loss")
    expect(listed).to_contain_text("mse_loss", timeout=30_000)
    assert listed.get_by_role("listitem").count() == 1
    expect(listed).to_contain_text("second 2×8")
    expect(listed).to_contain_text("relu in the model 2×6")
    listed.get_by_role("button", name=re.compile("second")).click()
    details = tab.frame.get_by_role("complementary")
    expect(details.get_by_role("heading", name=re.compile("second"))).to_be_visible()
