"""A log directory with good, partial and damaged records, served by a real TensorBoard under both readers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.compat.proto import event_pb2, graph_pb2

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tb_plugin_structure.records.plan import build_plan
from tb_plugin_structure.v1 import structure_pb2
from tests.support.small_records import small_attention, small_structure
from tests.support.tensorboard_server import TensorBoardServer


def write_logdir(folder: Path) -> None:
    run = event_file.OwnEventFile(folder / "kd")
    for step in range(0, 300, 10):
        hidden = 4 if step < 100 else 6
        run.add_event(
            event_file.record_event(
                names.STRUCTURE_PLUGIN, names.structure_tag("teacher"), small_structure(hidden=hidden).encode(), step
            )
        )
    student = small_structure("student", hidden=2)
    run.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, names.structure_tag("student"), student.encode(), 0))
    for model in ("teacher", "student"):
        overview, detail = small_attention(model)
        run.add_event(
            event_file.record_event(
                names.ATTENTION_OVERVIEW_PLUGIN, names.attention_overview_tag(model), overview.encode(), 0
            )
        )
        run.add_event(
            event_file.record_event(
                names.ATTENTION_DETAIL_PLUGIN, names.attention_detail_tag(model, "attention"), detail, 0
            )
        )
    plan = build_plan("teacher", "student", pins={"first": "second", "activation": None})
    run.add_event(
        event_file.record_event(names.PLAN_PLUGIN, names.plan_tag("teacher", "student"), [plan.SerializeToString()], 0)
    )
    run.close()

    added = event_file.OwnEventFile(folder / "added")
    graph = graph_pb2.GraphDef()
    for name, op, inputs in (
        ("input/x", "IO Node", []),
        ("Net/Linear[fc]/3", "aten::linear", ["input/x"]),
        ("Net/4", "aten::relu", ["Net/Linear[fc]/3"]),
    ):
        node = graph.node.add(name=name, op=op, input=inputs)
        node.attr["_output_shapes"].list.shape.add().dim.add(size=5)
    added.add_event(event_pb2.Event(wall_time=1, graph_def=graph.SerializeToString()))
    added.close()

    broken = event_file.OwnEventFile(folder / "broken")
    error = structure_pb2.CaptureError(type="RuntimeError", message="shapes do not meet", module_path="second")
    partial = small_structure("partial", error=error)
    stored = list(small_structure("damaged").encode())
    stored[3] = b"\x1f\x8bno gzip at all"
    for tag, blobs in (
        ("structure/partial", partial.encode()),
        ("structure/damaged", stored),
        ("structure/garbage", [b"\xff\xff\xff\xff"]),
    ):
        broken.add_event(event_file.record_event(names.STRUCTURE_PLUGIN, tag, blobs, 0))
    broken.close()

    # A file cut in the middle of a record, and one with a damaged byte, beside the good runs.
    for name, cut in (("truncated", True), ("flipped", False)):
        copy = folder / name
        shutil.copytree(folder / "kd", copy)
        file = next(copy.glob("*tfevents*"))
        data = bytearray(file.read_bytes())
        if cut:
            file.write_bytes(data[: len(data) * 2 // 3])
        else:
            data[len(data) // 2] ^= 0xFF
            file.write_bytes(data)


@pytest.fixture(scope="session", params=["python", "rust"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoardServer]:
    folder = tmp_path_factory.mktemp(f"logdir-{request.param}")
    write_logdir(folder)
    with TensorBoardServer(folder, fast=request.param == "rust") as running:
        running.records(at_least=7)
        yield running
