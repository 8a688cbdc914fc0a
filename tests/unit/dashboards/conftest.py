"""A log directory with good, partial and damaged records, served by a real TensorBoard under both readers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tb_plugin_structure import event_file
from tb_plugin_structure.records import attention, names
from tb_plugin_structure.records.plan import build_plan
from tb_plugin_structure.v1 import attention_pb2, structure_pb2
from tests.support.small_records import small_structure
from tests.support.tensorboard_server import TensorBoardServer


def small_attention(model: str) -> tuple[attention.AttentionOverview, list[bytes]]:
    """One layer of two heads over three positions: head 0 looks at itself, head 1 at the first key."""
    maps = np.stack([np.eye(3), np.eye(3)[[0, 0, 0]]]).astype(np.float32)
    header = attention_pb2.AttentionOverviewHeader(model=model)
    header.axes.add(kind="text", length=3, tokens=["a", "b", "c"])
    header.layers.add(
        module_path="attention",
        heads=2,
        key_heads=2,
        query_length=3,
        key_length=3,
        relation="self",
        route=attention_pb2.ATTENTION_ROUTE_SOFTMAX_MATMUL,
        dtype="float32",
        mask="none",
        overview_rows=3,
        overview_columns=3,
        exactness="exact",
    )
    codes = (maps * 255).astype(np.uint8).tobytes()
    statistics = {
        "layer": [0, 0],
        "head": [0, 1],
        "entropy": [0.0, 0.0],
        "normalized_entropy": [0.0, 0.0],
        "distance": [0.0, 1.0],
        "sink_mass": [1 / 3, 1.0],
        "diagonal_mass": [1.0, 1 / 3],
        "previous_mass": [0.0, 0.5],
        "maximum": [1.0, 1.0],
        "top1_mass": [1.0, 1.0],
        "masked_rows": [0, 0],
        "row_sum_error": [0.0, 0.0],
        "maximum_scale": [1.0, 1.0],
        "mass_scale": [1.0, 1.0],
    }
    overview = attention.AttentionOverview.build(header, statistics, codes, codes)
    detail = attention_pb2.AttentionDetailHeader(model=model)
    detail.details.add(
        module_path="attention",
        query_length=3,
        key_length=3,
        codec=attention_pb2.ATTENTION_CODEC_MATRIX_F16,
        heads=[1],
        first_blob=1,
    )
    return overview, attention.encode_detail(detail, [attention.encode_matrix(maps[1])])


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
        running.records(at_least=6)
        yield running
