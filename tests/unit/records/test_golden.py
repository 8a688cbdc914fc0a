"""Event files of every released format can be read, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing import event_file_loader

from tb_plugin_structure.records import names
from tb_plugin_structure.records.attention import AttentionOverview, decode_detail_header, decode_matrix
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.plan import decode_plan, plan_pins
from tb_plugin_structure.records.structure import Structure

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("events.out.tfevents.format*"))


def read(path: Path) -> dict[str, tuple[str, int, list[bytes]]]:
    """Tag -> (data plugin, step, blobs)."""
    found = {}
    for event in event_file_loader.RawEventFileLoader(str(path)).Load():
        for value in event_file_loader.event_pb2.Event.FromString(event).summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            found[value.tag] = (plugin, 7, list(value.tensor.string_val))
    return found


def test_there_is_a_golden_file_of_the_current_format() -> None:
    assert [path.name for path in GOLDEN] == ["events.out.tfevents.format1"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_golden_records_decode_to_what_was_written(path: Path) -> None:
    records = read(path)
    assert sorted(records) == [
        "detail/teacher/attention",
        "measurement/teacher",
        "overview/teacher",
        "plan/teacher/student",
        "structure/student",
        "structure/teacher",
    ]
    plugin, _, blobs = records["structure/teacher"]
    assert plugin == names.STRUCTURE_PLUGIN
    teacher = Structure.decode(blobs)
    assert teacher.module_classes == ["Small", "Linear", "ReLU", "Linear"]
    assert teacher.operators.column_texts("source") == ["small.py:3", "small.py:4", "small.py:5"]
    assert teacher.operator_edges.tolist() == [[0, 1, 1], [1, 2, 2]]
    assert Structure.decode(records["structure/student"][2]).parameter_count(0) == 14

    overview = AttentionOverview.decode(records["overview/teacher"][2])
    assert list(overview.header.axes[0].tokens) == ["a", "b", "c"]
    assert overview.plane(0, 1).tolist() == [[1, 0, 0]] * 3
    _, _, detail_blobs = records["detail/teacher/attention"]
    detail = decode_detail_header(detail_blobs).details[0]
    assert decode_matrix(detail, detail_blobs[detail.first_blob]).tolist() == [[1, 0, 0]] * 3

    measurement = Measurement.decode(records["measurement/teacher"][2])
    assert measurement.quantity("gradient_norm") == {"first": 0.5}
    assert measurement.quantity("gradient_norm", subject=1) == {"first.weight": 0.25}

    plan = decode_plan(records["plan/teacher/student"][2])
    assert plan_pins(plan) == {"first": ["first", "second"], "second": None}
    assert plan.policy == "uniform"
