"""``make stress``: hundreds of runs, and 64 viewers at once on large records; prints the figures."""

from __future__ import annotations

import os
import socket
import statistics
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest

from tests.support.large_records import write_large_runs, write_many_runs
from tests.support.tensorboard_server import TensorBoardServer

RUNS = int(os.environ.get("STRESS_RUNS", "300"))
STEPS = 5
LARGE_RUNS = int(os.environ.get("STRESS_LARGE_RUNS", "50"))
OPERATORS = int(os.environ.get("STRESS_OPERATORS", "50000"))
VIEWERS = int(os.environ.get("STRESS_VIEWERS", "64"))
COMPARING = int(os.environ.get("STRESS_COMPARING", str(VIEWERS)))
"""How many of the viewers go on to alignment and audit, which take their time."""
LEAVERS = 8
READERS = pytest.mark.parametrize("fast", [False, True], ids=["python", "rust"])


def memory(server: TensorBoardServer) -> tuple[int, int]:
    """Resident MiB of TensorBoard, and of the data server beside it."""
    process = psutil.Process(server.pid)
    children = sum(child.memory_info().rss for child in process.children(recursive=True))
    return process.memory_info().rss >> 20, children >> 20


def processor_seconds(server: TensorBoardServer) -> float:
    """Processor time that TensorBoard and its data server have used."""
    process = psutil.Process(server.pid)
    return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))


LOAD_ONCE = ("--reload_interval", "3600")
"""What is measured is not a reader that looks for news."""


def wait_for(server: TensorBoardServer, runs: int) -> None:
    """Until TensorBoard has read all runs and is at rest, without a request to our routes: our caches stay cold."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and len(server.json("/data/runs")) < runs:
        time.sleep(0.5)
    quiet = 0
    while quiet < 7 and time.monotonic() < deadline:  # the data server commits a run at most every five seconds
        before = processor_seconds(server)
        time.sleep(1)
        quiet = quiet + 1 if processor_seconds(server) - before < 0.05 else 0


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    write_many_runs(folder, RUNS, STEPS)
    return folder


@READERS
def test_the_list_of_hundreds_of_runs(many: Path, fast: bool) -> None:
    with TensorBoardServer(many, *LOAD_ONCE, fast=fast) as server:
        wait_for(server, RUNS)
        times, processor = [], []
        for _ in range(8):
            started, before = time.monotonic(), processor_seconds(server)
            listing = server.json("structure_graph_diff/api/records")
            times.append(1000 * (time.monotonic() - started))
            processor.append(1000 * (processor_seconds(server) - before))
        records = sum(len(entry["steps"]) for kind in ("structures", "attention") for entry in listing[kind])
        warm, busy = statistics.median(times[1:]), statistics.median(processor[1:])
        print(f"\n{RUNS} runs, {records:,} records: cold {times[0]:.0f} ms ({processor[0]:.0f} ms of processor time),")
        print(f"warm {warm:.0f} ms ({busy:.0f} ms of processor time), memory {memory(server)} MiB")
        assert records == RUNS * 4 * STEPS
        assert busy < 300  # processor time: the machine may be busy with other things


class Viewer(threading.Thread):
    """What a tab asks for when somebody opens two models, one request after the other."""

    def __init__(self, server: TensorBoardServer, number: int, took: dict[str, list[float]]) -> None:
        super().__init__()
        self.server, self.number, self.took = server, number, took
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            for name, path in self.paths():
                started = time.monotonic()
                request = urllib.request.Request(
                    f"{self.server.url}/data/plugin/{path}", headers={"Accept-Encoding": "gzip"}
                )
                with urllib.request.urlopen(request, timeout=3600) as response:
                    assert response.status == 200
                    response.read()
                self.took[name].append(time.monotonic() - started)
        except Exception as error:
            self.failure = error

    def paths(self) -> Iterator[tuple[str, str]]:
        mine, other = self.number % LARGE_RUNS, (self.number + 1) % LARGE_RUNS
        yield "records", "structure_graph_diff/api/records"
        for run in (mine, other):
            for part in ("header", "strings", "modules", "module_calls", "operators", "kernels", "tensors"):
                address = urlencode({"run": f"run{run:02}", "tag": "structure/model", "step": run, "part": part})
                yield "structure", f"structure_graph_diff/api/structure?{address}"
        address = urlencode({"run": f"run{mine:02}", "tag": "overview/model", "step": mine, "part": "maximum"})
        yield "attention/overview", f"structure_attention/api/attention/overview?{address}"
        for name, tab, tag in (
            ("attention/comparison", "structure_attention", "overview/model"),
            ("alignment", "structure_graph_diff", "structure/model"),
            ("audit", "structure_shape_audit", "structure/model"),
        ):
            sides = {"t_run": f"run{mine:02}", "t_tag": tag, "t_step": mine}
            sides |= {"s_run": f"run{other:02}", "s_tag": tag, "s_step": other}
            if name != "attention/comparison" and self.number >= COMPARING:
                return
            yield name, f"{tab}/api/{name}?{urlencode(sides)}"


class Bystander(threading.Thread):
    """Somebody with a small wish, once a second, while the others wait for large answers."""

    def __init__(self, server: TensorBoardServer, took: dict[str, list[float]]) -> None:
        super().__init__()
        self.server, self.took = server, took
        self.ended = threading.Event()

    def run(self) -> None:
        address = urlencode({"run": "run00", "tag": "structure/model", "step": 0, "part": "header"})
        while not self.ended.wait(1):
            for name, path in (("list", "records"), ("header", f"structure?{address}")):
                started = time.monotonic()
                self.server.get(f"structure_graph_diff/api/{path}")
                self.took[f"bystander: {name}"].append(time.monotonic() - started)


def ask_and_leave(server: TensorBoardServer) -> None:
    """Ask for audits that nobody else asks for, and close the connections: they must cost the others nothing."""
    host, port = server.url.removeprefix("http://").split(":")
    for run in range(LEAVERS):
        sides = {"t_run": f"run{run:02}", "t_tag": "structure/model", "t_step": run}
        other = (run + 7) % LARGE_RUNS
        sides |= {"s_run": f"run{other:02}", "s_tag": "structure/model", "s_step": other}
        path = f"/data/plugin/structure_shape_audit/api/audit?{urlencode(sides)}"
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            time.sleep(0.2)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    write_large_runs(folder, LARGE_RUNS, OPERATORS)
    return folder


@READERS
def test_many_viewers_of_large_records(large: Path, fast: bool) -> None:
    with TensorBoardServer(large, fast=fast) as server:
        for kind in ("structures", "attention"):
            server.records(at_least=LARGE_RUNS, kind=kind)
        took: dict[str, list[float]] = defaultdict(list)
        viewers = [Viewer(server, number, took) for number in range(VIEWERS)]
        started = time.monotonic()
        for viewer in viewers:
            viewer.start()
        before = processor_seconds(server)
        bystander = Bystander(server, took)
        bystander.start()
        ask_and_leave(server)
        peak = memory(server)
        while any(viewer.is_alive() for viewer in viewers):
            time.sleep(0.2)
            peak = max(peak, memory(server))
        bystander.ended.set()
        bystander.join()
        busy = processor_seconds(server) - before
        print(f"\n{VIEWERS} viewers, {COMPARING} of whom compare, {LARGE_RUNS} runs of {OPERATORS:,} operators,")
        print(f"{LEAVERS} who left:")
        print(f"{time.monotonic() - started:.0f} s, of which {busy:.0f} s of processor time,")
        print(f"peak memory {peak[0]} MiB TensorBoard, {peak[1]} MiB data server")
        for name, seconds in sorted(took.items()):
            ordered = sorted(seconds)
            p95 = ordered[int(0.95 * (len(ordered) - 1))]
            print(
                f"  {name:22} {len(ordered):5} requests, median {statistics.median(ordered):7.2f} s, p95 {p95:7.2f} s"
            )
        assert [viewer.failure for viewer in viewers if viewer.failure] == []
        assert peak[0] < 1_000
        assert server.alive
