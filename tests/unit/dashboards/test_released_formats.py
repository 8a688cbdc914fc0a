"""Event files of every released format, and of today's writer, as a real TensorBoard serves them."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from tb_plugin_structure.records.attention import AttentionOverview
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.structure import Structure
from tb_plugin_structure.v1 import attention_pb2, measurement_pb2, structure_pb2
from tests.support.tensorboard_server import TensorBoardServer

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("events.out.tfevents.format*"))
FRESH = os.environ.get("TBPS_FRESH_LOGDIR", "")
"""A log directory that today's StructureWriter wrote elsewhere (`make matrix` sets it: the cells have no torch)."""

ROUTES: tuple[tuple[str, str, Any, Any], ...] = (
    ("structures", "api/structure", structure_pb2.StructureHeader, Structure),
    ("measurements", "api/measurement", measurement_pb2.MeasurementHeader, Measurement),
    ("attention", "api/attention/overview", attention_pb2.AttentionOverviewHeader, AttentionOverview),
)


@pytest.fixture(scope="module", params=["python", "rust"])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp(f"formats-{request.param}")
    for path in GOLDEN:
        run = folder / path.suffix[1:]
        run.mkdir()
        shutil.copy(path, run)
    if FRESH:
        shutil.copytree(FRESH, folder / "fresh")
    with TensorBoardServer(folder, fast=request.param == "rust") as running:
        running.records(at_least=2 * len(GOLDEN) + (2 if FRESH else 0))
        yield running


def _fetch(server: TensorBoardServer, route: str, header_type: Any, record: Any, entry: Any, step: int) -> Any:
    """A record put together from its parts, as the frontend does it."""
    address = urlencode({"run": entry["run"], "tag": entry["tag"], "step": step})
    header = server.get(f"structure_graph_diff/{route}?{address}&part=header")
    blobs = [header]
    for part in header_type.FromString(header).parts:
        blobs.append(gzip.compress(server.get(f"structure_graph_diff/{route}?{address}&part={part.name}"), mtime=0))
    return record.decode(blobs)


def test_every_record_is_listed_and_decodes(reader: TensorBoardServer) -> None:
    listing = reader.records()
    assert listing["problems"] == []
    decoded = 0
    for kind, route, header_type, record in ROUTES:
        for entry in listing[kind]:
            for step in entry["steps"]:
                assert _fetch(reader, route, header_type, record, entry, step["step"]) is not None
                decoded += 1
    assert decoded >= 4 * len(GOLDEN)


def test_format_1_reads_as_it_was_written(reader: TensorBoardServer) -> None:
    listing = reader.records()
    entries = {(kind, entry["tag"]): entry for kind in listing for entry in listing[kind] if entry["run"] == "format1"}
    teacher = _fetch(reader, *ROUTES[0][1:], entries["structures", "structure/teacher"], 7)
    assert teacher.module_paths == ["", "first", "activation", "second"]
    assert teacher.parameter_count(0) == 26
    measurement = _fetch(reader, *ROUTES[1][1:], entries["measurements", "measurement/teacher"], 7)
    assert measurement.quantity("gradient_norm") == {"first": 0.5}
    overview = _fetch(reader, *ROUTES[2][1:], entries["attention", "overview/teacher"], 7)
    assert overview.plane(0, 0).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    address = "run=format1&tag=overview/teacher&step=7&layer=0&head=1"
    matrix = np.frombuffer(reader.get(f"structure_attention/api/attention/detail?{address}"), "<f2")
    assert matrix.tolist() == [1, 0, 0] * 3
    assert entries["plans", "plan/teacher/student"]["steps"][0]["step"] == 7


def test_the_tabs_are_active(reader: TensorBoardServer) -> None:
    listing = reader.json("/data/plugins_listing")
    for tab in ("structure_graph_diff", "structure_shape_audit", "structure_attention"):
        assert listing[tab]["enabled"] is True


@pytest.mark.skipif(not FRESH, reason="`make matrix` writes a log directory with torch and names it here")
def test_what_todays_writer_wrote_is_complete(reader: TensorBoardServer) -> None:
    listing = reader.records()
    tags = {entry["tag"] for kind in ("structures", "attention") for entry in listing[kind] if "fresh" in entry["run"]}
    assert {"structure/teacher", "structure/student", "overview/teacher", "overview/student"} <= tags
