"""Training that was resumed from an earlier step shows one history, the same under both readers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tb_plugin_structure.v1 import structure_pb2
from tests.support.small_records import small_structure
from tests.support.tensorboard_server import TensorBoardServer

TAG = names.structure_tag("teacher")


def attempt(file: event_file.OwnEventFile | EventFileWriter, steps: range, hidden: int) -> None:
    """One process of the training; `hidden` tells its records from those of another."""
    for step in steps:
        blobs = small_structure(hidden=hidden).encode()
        file.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, TAG, blobs, step))
    file.flush()


def purge(step: int) -> event_pb2.Event:
    """What a SummaryWriter with purge_step writes first."""
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    return event_pb2.Event(step=step, wall_time=time.time(), session_log=start)


@pytest.fixture(scope="module", params=["python", "rust"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp(f"resumed-{request.param}")
    for run in ("between", "same_steps", "shorter", "torn"):
        first = event_file.OwnEventFile(folder / run)
        attempt(first, range(0, 50, 10), hidden=4)
        first.close()
    first_of_user = EventFileWriter(str(folder / "purged"))
    attempt(first_of_user, range(0, 50, 10), hidden=4)
    first_of_user.close()
    (path,) = (folder / "torn").iterdir()
    path.write_bytes(path.read_bytes()[:-100])  # killed while it wrote a record

    time.sleep(1.1)  # event files are named, and read in order, by the second
    for run, steps in (
        ("between", range(25, 75, 10)),
        ("same_steps", range(20, 80, 10)),
        ("shorter", range(10, 20, 10)),
        ("torn", range(30, 60, 10)),
    ):
        again = event_file.OwnEventFile(folder / run)
        attempt(again, steps, hidden=6)
        assert again.logdir == str(folder / run)
        again.close()
    second_of_user = EventFileWriter(str(folder / "purged"))
    second_of_user.add_event(purge(20))
    attempt(second_of_user, range(20, 80, 10), hidden=6)
    second_of_user.close()

    with TensorBoardServer(folder, fast=request.param == "rust") as running:
        running.records(at_least=5)
        time.sleep(2.5)  # the second files are read after the first ones
        yield running


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("between", {0: 26, 10: 26, 20: 26, 25: 38, 35: 38, 45: 38, 55: 38, 65: 38}),
        ("same_steps", {0: 26, 10: 26, 20: 38, 30: 38, 40: 38, 50: 38, 60: 38, 70: 38}),
        ("shorter", {0: 26, 10: 38}),
        ("purged", {0: 26, 10: 26, 20: 38, 30: 38, 40: 38, 50: 38, 60: 38, 70: 38}),
        ("torn", {0: 26, 10: 26, 20: 26, 30: 38, 40: 38, 50: 38}),
    ],
)
def test_the_second_attempt_replaces_what_the_first_wrote_from_its_step_on(
    server: TensorBoardServer, run: str, expected: dict[int, int]
) -> None:
    (entry,) = (entry for entry in server.records()["structures"] if entry["run"] == run)
    assert {step["step"]: step["totals"]["parameters"] for step in entry["steps"]} == expected
    hashes = {step["step"]: step["hash"] for step in entry["steps"]}
    # Each step can be fetched by what the list says, and is the attempt that the list shows.
    for step, parameters in expected.items():
        address = f"run={run}&tag={TAG}&step={step}&hash={hashes[step]}&part=header"
        header = structure_pb2.StructureHeader.FromString(server.get(f"structure_graph_diff/api/structure?{address}"))
        assert header.totals.parameters == parameters


def test_a_directory_with_files_of_another_writer_is_left_to_it(tmp_path: Path) -> None:
    other = EventFileWriter(str(tmp_path))
    ours = event_file.OwnEventFile(tmp_path)
    assert ours.logdir == str(tmp_path / "structure")
    attempt(ours, range(1), hidden=4)
    ours.close()
    other.close()
    assert event_file.OwnEventFile(tmp_path).logdir == str(tmp_path / "structure")


def test_a_writer_that_was_made_before_the_users_own_still_yields(tmp_path: Path) -> None:
    ours = event_file.OwnEventFile(tmp_path)
    other = EventFileWriter(str(tmp_path))
    attempt(ours, range(1), hidden=4)
    assert ours.logdir == str(tmp_path / "structure")
    ours.close()
    other.close()
