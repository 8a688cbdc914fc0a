"""Writes the golden event file of the current record format: ``python -m tests.golden.make_golden``.

Run it once when a format is released, commit the file, and never write it again: every later version must read it.
"""

from __future__ import annotations

from pathlib import Path

from tensorboard.summary.writer import record_writer

from tb_plugin_structure import event_file
from tb_plugin_structure.records import names
from tb_plugin_structure.records.measurement import Measurement
from tb_plugin_structure.records.plan import build_plan
from tb_plugin_structure.records.schema import FORMAT_VERSION
from tests.support.small_records import small_attention, small_structure

FOLDER = Path(__file__).parent


def main() -> None:
    teacher = small_structure("teacher")
    overview, detail = small_attention("teacher")
    measurement = Measurement.build(
        "teacher",
        teacher.header.structure_hash,
        ["", "first", "first.weight"],
        [0, 0, 1],
        {"gradient_norm": [float("nan"), 0.5, 0.25]},
    )
    plan = build_plan("teacher", "student", pins={"first": ["first", "second"], "second": None}, policy="uniform")
    records = (
        (names.STRUCTURE_PLUGIN, names.structure_tag("teacher"), teacher.encode()),
        (names.STRUCTURE_PLUGIN, names.structure_tag("student"), small_structure("student", hidden=2).encode()),
        (names.ATTENTION_OVERVIEW_PLUGIN, names.attention_overview_tag("teacher"), overview.encode()),
        (names.ATTENTION_DETAIL_PLUGIN, names.attention_detail_tag("teacher", "attention"), detail),
        (names.MEASUREMENT_PLUGIN, names.measurement_tag("teacher"), measurement.encode()),
        (names.PLAN_PLUGIN, names.plan_tag("teacher", "student"), [plan.SerializeToString()]),
    )
    with open(FOLDER / f"events.out.tfevents.format{FORMAT_VERSION}", "wb") as file:
        writer = record_writer.RecordWriter(file)
        writer.write(event_file.event_pb2.Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
        for plugin, tag, blobs in records:
            event = event_file.record_event(plugin, tag, blobs, 7)
            event.wall_time = 1_700_000_000
            writer.write(event.SerializeToString())


if __name__ == "__main__":
    main()
