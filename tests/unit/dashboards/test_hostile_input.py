"""Hostile event files and wrong requests: a 4xx with a sentence, never a 5xx, TensorBoard alive, others unharmed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import hostile_logdir
from tests.support.tensorboard_server import TensorBoardServer


@pytest.fixture(scope="module", params=["python", "rust"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp(f"hostile-{request.param}")
    hostile_logdir.write_logdir(folder, count=24)
    with TensorBoardServer(folder, fast=request.param == "rust") as running:
        hostile_logdir.wait_until_read(running)
        yield running


def test_records_that_mean_harm_hide_no_good_one(server: TensorBoardServer) -> None:
    listing = server.records()
    shown = {(entry["run"], entry["tag"]) for entry in listing["structures"]}
    assert {("good", "structure/teacher"), ("good", "structure/student")} <= shown
    assert listing["problems"]
    hostile = {entry["model"]: entry for entry in listing["structures"] if "hostile" in entry["run"]}
    assert "<script>alert(1)</script>" in hostile
    totals = hostile["<script>alert(1)</script>"]["steps"][0]["totals"]
    assert (totals["macs"], totals["modules"]) == (None, 4)


def test_no_record_makes_a_route_fail(server: TensorBoardServer) -> None:
    statuses = hostile_logdir.ask_for_records(server, share=0.12)
    assert statuses[200] > 20
    assert statuses[422] > 0


def test_no_request_makes_a_route_fail(server: TensorBoardServer) -> None:
    statuses = hostile_logdir.send(server, 100)
    assert {200, 400, 404, 405} <= set(statuses)


def test_a_name_that_is_a_script_leaves_as_text_only(server: TensorBoardServer) -> None:
    script = "%3Cscript%3Ealert(1)%3C/script%3E"
    for path in (f"api/structure?run={script}&tag=t&step=0&part=header", f"static/{script}.js", f"api/{script}"):
        _, headers, body = server.request(f"structure_graph_diff/{path}")
        assert not headers["Content-Type"].startswith("text/html") or b"<script>" not in body


def test_other_plugins_and_tensorboard_itself_go_on(server: TensorBoardServer) -> None:
    assert server.alive
    assert server.request("/data/runs")[0] == 200
    assert server.request("/data/plugins_listing")[0] == 200
    assert server.request("scalars/tags")[0] == 200
    assert not [line for line in server.log if "structure" in line and "Traceback" in line]
